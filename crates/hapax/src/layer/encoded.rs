//! Bodies with a `Content-Encoding`, decoded so that two of them can be compared by what they say. It decodes within limits
//! and gives up on anything else: then the bytes count. What the handler gets is never decoded.

use std::io::{Cursor, Read};

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// What decodes to more than this is compared by its bytes.
const DECODED_BYTES_MAX: usize = 8 << 20;
/// So is what decodes to more than so many times its length, and to more than [`DECODED_BYTES_MIN`].
const RATIO_MAX: usize = 100;
const DECODED_BYTES_MIN: usize = 64 << 10;
/// The buffer between a body and the decoder of brotli.
const BROTLI_BUFFER_BYTES: usize = 4096;

#[derive(Clone, Copy)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The one coding of a body, if it has one and it can be decoded.
fn coding(headers: &HeaderMap) -> Option<Coding> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    match value.to_str().ok()?.trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => Some(Coding::Gzip),
        "deflate" => Some(Coding::Deflate),
        "br" => Some(Coding::Brotli),
        "zstd" => Some(Coding::Zstd),
        _unknown => None,
    }
}

/// How many bytes a body of `length` bytes may decode to and still be compared by what it says: 8 MiB, and no more than a
/// hundred times its length. None if it is not encoded.
///
/// ```
/// use hapax::layer::decoded_bytes_max;
/// use http::HeaderMap;
///
/// assert_eq!(decoded_bytes_max(&HeaderMap::new(), 100_000), 0);
/// let gzip = HeaderMap::from_iter([(http::header::CONTENT_ENCODING, "gzip".parse().unwrap())]);
/// assert_eq!(decoded_bytes_max(&gzip, 10_000), 1_000_000);
/// assert_eq!(decoded_bytes_max(&gzip, 100_000), 8 << 20);
/// ```
#[must_use]
pub fn decoded_bytes_max(headers: &HeaderMap, length: usize) -> usize {
    if length == 0 || coding(headers).is_none() {
        return 0;
    }
    length
        .saturating_mul(RATIO_MAX)
        .clamp(DECODED_BYTES_MIN, DECODED_BYTES_MAX)
}

/// The body decoded, if it is encoded in one way that is known, whole, and within the limits.
pub(super) fn decoded(headers: &HeaderMap, body: &Bytes) -> Option<Bytes> {
    let most = decoded_bytes_max(headers, body.len());
    let read = |reader: &mut dyn Read| {
        let mut bytes = Vec::new();
        let read = reader.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
        (read <= most).then(|| fitted(bytes))
    };
    match coding(headers)? {
        Coding::Gzip => read(&mut flate2::read::MultiGzDecoder::new(&body[..])),
        // The name stands for zlib's format; some send the bare one.
        Coding::Deflate => {
            let mut zlib = flate2::bufread::ZlibDecoder::new(Cursor::new(body));
            let bytes = read(&mut zlib).filter(|_| zlib.total_in() == body.len() as u64);
            bytes.or_else(|| {
                let mut bare = flate2::bufread::DeflateDecoder::new(Cursor::new(body));
                read(&mut bare).filter(|_| bare.total_in() == body.len() as u64)
            })
        }
        Coding::Brotli => {
            let body = Cursor::new(body);
            read(&mut brotli_decompressor::Decompressor::new(
                body,
                BROTLI_BUFFER_BYTES,
            ))
        }
        // In one go, so that its window is no larger than what is decoded.
        Coding::Zstd => zstd::bulk::decompress(body, most).ok().map(fitted),
    }
}

/// The bytes without the room that was taken for more.
fn fitted(mut bytes: Vec<u8>) -> Bytes {
    bytes.shrink_to_fit();
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const TEXT: &[u8] = b"{\"hello\":\"world\",\"n\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}";
    /// [`TEXT`], by the encoder of Node.
    const BROTLI: &[u8] = &[
        27, 62, 0, 248, 29, 7, 110, 172, 216, 155, 160, 115, 238, 54, 168, 69, 182, 220, 246, 38,
        139, 78, 87, 197, 244, 181, 36, 147, 108, 210, 143, 52, 160, 131, 100, 188, 95, 210, 143,
        41, 112,
    ];

    fn of(coding: &str, body: &[u8]) -> Option<Bytes> {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, coding.parse().unwrap())]);
        decoded(&headers, &Bytes::copy_from_slice(body))
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn all() -> Vec<(&'static str, Vec<u8>)> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(TEXT).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(TEXT).unwrap();
        vec![
            ("gzip", gzip(TEXT)),
            ("X-GZip", gzip(TEXT)),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", bare.finish().unwrap()),
            ("br", BROTLI.to_vec()),
            ("zstd", zstd::bulk::compress(TEXT, 1).unwrap()),
        ]
    }

    #[test]
    fn every_coding_is_decoded() {
        for (coding, body) in all() {
            assert_eq!(of(coding, &body).as_deref(), Some(TEXT), "{coding}");
        }
        let members = [gzip(&TEXT[..9]), gzip(&TEXT[9..])].concat();
        assert_eq!(of("gzip", &members).as_deref(), Some(TEXT));
    }

    #[test]
    fn what_is_cut_short_or_unknown_is_not_decoded() {
        for (coding, body) in all() {
            assert_eq!(of(coding, &body[..body.len() - 5]), None, "{coding}");
            assert_eq!(of(coding, TEXT), None, "{coding}");
        }
        for coding in ["identity", "compress", "gzip, br", ""] {
            assert_eq!(of(coding, &gzip(TEXT)), None, "{coding}");
        }
        let mut trailed = all()[2].1.clone();
        trailed.push(0);
        assert_eq!(of("deflate", &trailed), None);
        let mut headers = HeaderMap::new();
        headers.append(CONTENT_ENCODING, "gzip".parse().unwrap());
        headers.append(CONTENT_ENCODING, "gzip".parse().unwrap());
        assert_eq!(decoded(&headers, &gzip(TEXT).into()), None);
    }

    #[test]
    fn what_grows_beyond_the_limits_is_not_decoded() {
        let zeros = vec![b'0'; DECODED_BYTES_MAX + 1];
        let within = &zeros[..DECODED_BYTES_MIN];
        assert_eq!(of("gzip", &gzip(within)).as_deref(), Some(within));
        for bytes in [DECODED_BYTES_MIN * 4, DECODED_BYTES_MAX + 1] {
            let body = &zeros[..bytes];
            assert_eq!(of("gzip", &gzip(body)), None, "{bytes} of a ratio of 1000");
            assert_eq!(of("zstd", &zstd::bulk::compress(body, 1).unwrap()), None);
        }
        let noise: Vec<u8> = (0..=DECODED_BYTES_MAX as u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
            .collect();
        let zstd = |body: &[u8]| zstd::bulk::compress(body, 1).unwrap();
        assert_eq!(of("zstd", &zstd(&noise)), None, "too large altogether");
        let fits = &noise[1..];
        assert_eq!(of("zstd", &zstd(fits)).as_deref(), Some(fits));
    }
}

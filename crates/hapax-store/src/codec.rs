//! How bodies and headers become column values: a tag byte, then the bytes, compressed when it pays.
//! It knows nothing of records or SQL.

use bytes::Bytes;
use hapax_core::canonical::{InvalidPath, Path};
use hapax_core::{Error, Kind};

/// Bodies shorter than this are not worth compressing.
const COMPRESS_BYTES_MIN: usize = 512;
/// The largest body that is unpacked. Over every configured limit; a guard against a damaged row.
const UNPACKED_BYTES_MAX: usize = 256 * 1024 * 1024;
const ZSTD_LEVEL: i32 = 1;

const TAG_PLAIN: u8 = 0;
const TAG_ZSTD: u8 = 1;
/// What follows is sealed: the id of a tenant's key, a nonce, and one of the forms above as ciphertext.
pub(crate) const TAG_SEALED: u8 = 2;

/// The column value for `body`.
pub(crate) fn pack(body: &[u8]) -> Vec<u8> {
    if body.len() >= COMPRESS_BYTES_MIN
        && let Ok(packed) = zstd::bulk::compress(body, ZSTD_LEVEL)
        && packed.len() + packed.len() / 8 + 8 < body.len()
    {
        let mut column = Vec::with_capacity(packed.len() + 9);
        column.push(TAG_ZSTD);
        column.extend_from_slice(&(body.len() as u64).to_be_bytes());
        column.extend_from_slice(&packed);
        return column;
    }
    let mut column = Vec::with_capacity(body.len() + 1);
    column.push(TAG_PLAIN);
    column.extend_from_slice(body);
    column
}

/// The body behind a column value.
pub(crate) fn unpack(column: &Bytes) -> Result<Bytes, Error> {
    let damaged = |why: &str| Error::new(Kind::Corrupt, "reading a stored body").because(why);
    match column.first() {
        Some(&TAG_PLAIN) => Ok(column.slice(1..)),
        Some(&TAG_ZSTD) => {
            let (length, packed) = column[1..]
                .split_at_checked(8)
                .ok_or_else(|| damaged("it is cut short"))?;
            let length = u64::from_be_bytes(length.try_into().expect("split at 8 bytes"));
            let length = usize::try_from(length)
                .ok()
                .filter(|length| *length <= UNPACKED_BYTES_MAX);
            let length = length.ok_or_else(|| damaged("its length is over the limit"))?;
            let body = zstd::bulk::decompress(packed, length).map_err(|error| {
                Error::new(Kind::Corrupt, "reading a stored body").caused_by(error)
            })?;
            if body.len() == length {
                Ok(Bytes::from(body))
            } else {
                Err(damaged("its length is wrong"))
            }
        }
        Some(tag) => Err(damaged(&format!("tag {tag} is unknown to this version"))),
        None => Err(damaged("it is empty")),
    }
}

/// The column value for headers: a JSON array of pairs, each byte of a value one character.
pub(crate) fn pack_headers(headers: &[(String, Bytes)]) -> String {
    let pairs: Vec<(&str, String)> = headers
        .iter()
        .map(|(name, value)| {
            (
                name.as_str(),
                value.iter().map(|byte| char::from(*byte)).collect(),
            )
        })
        .collect();
    serde_json::to_string(&pairs).expect("pairs of strings are always JSON")
}

/// The headers behind a column value.
pub(crate) fn unpack_headers(column: &str) -> Result<Vec<(String, Bytes)>, Error> {
    let pairs: Vec<(String, String)> = serde_json::from_str(column)
        .map_err(|error| Error::new(Kind::Corrupt, "reading stored headers").caused_by(error))?;
    pairs
        .into_iter()
        .map(|(name, value)| {
            let bytes: Result<Vec<u8>, _> =
                value.chars().map(|c| u8::try_from(u32::from(c))).collect();
            let bytes = bytes.map_err(|error| {
                Error::new(Kind::Corrupt, "reading stored headers").caused_by(error)
            })?;
            Ok((name, Bytes::from(bytes)))
        })
        .collect()
}

/// The column value for paths of masks: a JSON array of their texts, or nothing for none.
pub(crate) fn pack_masks(paths: &[Path]) -> Option<String> {
    let texts: Vec<String> = paths.iter().map(ToString::to_string).collect();
    (!texts.is_empty())
        .then(|| serde_json::to_string(&texts).expect("a list of strings is always JSON"))
}

/// The paths of masks behind a column value.
pub(crate) fn unpack_masks(column: &str) -> Result<Vec<Path>, Error> {
    let damaged = || Error::new(Kind::Corrupt, "reading stored masks");
    let texts: Vec<String> =
        serde_json::from_str(column).map_err(|error| damaged().caused_by(error))?;
    let paths = texts.iter().map(|text| text.parse());
    paths
        .collect::<Result<_, _>>()
        .map_err(|error: InvalidPath| damaged().caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_comes_back_byte_for_byte() {
        let noise: Vec<u8> = (0..2000u32)
            .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1])
            .collect();
        for body in [&b""[..], b"x", &[0, 255, 1], &[b'a'; 5000], &noise] {
            assert_eq!(unpack(&pack(body).into()).unwrap(), body);
        }
        assert!(
            pack(&[b'a'; 5000]).len() < 200,
            "what repeats is compressed"
        );
    }

    #[test]
    fn a_damaged_body_is_reported_and_never_returned() {
        for column in [
            vec![],
            vec![9, 1],
            vec![TAG_ZSTD, 1],
            vec![TAG_ZSTD, 255, 255, 255, 255, 255, 255, 255, 255, 1],
        ] {
            assert_eq!(unpack(&column.into()).unwrap_err().kind(), Kind::Corrupt);
        }
    }

    #[test]
    fn header_values_keep_bytes_that_are_not_text() {
        let headers = vec![("x-name".to_owned(), Bytes::from_static(b"caf\xe9 \"q\""))];
        assert_eq!(unpack_headers(&pack_headers(&headers)).unwrap(), headers);
    }
}

//! Follows a chunked body to its end, by the grammar that hyper's decoder has. It keeps no data.

/// How far a chunked body has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chunks {
    /// Before a size; its first digit must come.
    Start,
    Size(u64),
    /// After a size: spaces.
    Space(u64),
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// After the last chunk or a trailer: the end, or a trailer.
    EndCr,
    Trailer,
    TrailerLf,
    EndLf,
}

/// What became of some bytes of a chunked body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// All of them belong to it, and there is more.
    More,
    /// It ends after this many of them.
    Done(usize),
    /// It is not chunked at all.
    Broken,
}

impl Chunks {
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Progress {
        let mut at = 0;
        while at < bytes.len() {
            if let Self::Data(left) = *self {
                let here = (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                at += here;
                let left = left - here as u64;
                *self = if left == 0 {
                    Self::DataCr
                } else {
                    Self::Data(left)
                };
                continue;
            }
            if (*self, bytes[at]) == (Self::EndLf, b'\n') {
                return Progress::Done(at + 1);
            }
            match self.next(bytes[at]) {
                Some(next) => *self = next,
                None => return Progress::Broken,
            }
            at += 1;
        }
        Progress::More
    }

    fn next(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Start, byte) => Some(Self::Size(digit(byte)?)),
            (Self::Size(size) | Self::Space(size), b' ' | b'\t') => Some(Self::Space(size)),
            (Self::Size(size) | Self::Space(size), b';') => Some(Self::Extension(size)),
            (Self::Size(size) | Self::Space(size) | Self::Extension(size), b'\r') => {
                Some(Self::SizeLf(size))
            }
            (Self::Size(size), byte) => {
                let size = size.checked_mul(16)?.checked_add(digit(byte)?)?;
                Some(Self::Size(size))
            }
            (Self::Extension(_), b'\n') => None,
            (Self::Extension(size), _) => Some(Self::Extension(size)),
            (Self::SizeLf(0) | Self::TrailerLf, b'\n') => Some(Self::EndCr),
            (Self::SizeLf(size), b'\n') => Some(Self::Data(size)),
            (Self::DataCr, b'\r') => Some(Self::DataLf),
            (Self::DataLf, b'\n') => Some(Self::Start),
            (Self::EndCr, b'\r') => Some(Self::EndLf),
            (Self::Trailer, b'\r') => Some(Self::TrailerLf),
            (Self::EndCr | Self::Trailer, _) => Some(Self::Trailer),
            (
                Self::Space(_)
                | Self::SizeLf(_)
                | Self::Data(_)
                | Self::DataCr
                | Self::DataLf
                | Self::TrailerLf
                | Self::EndLf,
                _,
            ) => None,
        }
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_after_its_last_chunk_and_trailers_however_it_is_cut() {
        for body in [
            &b"0\r\n\r\n"[..],
            b"5\r\nhello\r\n0\r\n\r\n",
            b"A ;x=y\r\n0123456789\r\n00\r\nx-sum: 1\r\nx-b: 2\r\n\r\n",
        ] {
            let whole = [body, b"GET / HTTP/1.1"].concat();
            assert_eq!(
                Chunks::Start.advance(&whole),
                Progress::Done(body.len()),
                "{body:?}"
            );
            for cut in 0..body.len() {
                let mut chunks = Chunks::Start;
                assert_eq!(
                    chunks.advance(&whole[..cut]),
                    Progress::More,
                    "{body:?} at {cut}"
                );
                assert_eq!(
                    chunks.advance(&whole[cut..]),
                    Progress::Done(body.len() - cut)
                );
            }
        }
    }

    #[test]
    fn what_is_not_chunked_is_noticed() {
        for body in [
            &b"x\r\n"[..],
            b"\r\n",
            b"5\nhello",
            b"5\r\nhellooo",
            b"5;a\nb\r\n",
            b"11111111111111111\r\n",
            b"0\r\n\rx",
        ] {
            assert_eq!(Chunks::Start.advance(body), Progress::Broken, "{body:?}");
        }
    }
}

//! The file of a batch and the form that it is uploaded in: two fields, written by hand because it is all that is needed of
//! multipart. The lines are on disk, and no more than a piece of them is in memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use hapax_core::Fingerprint;
use sha2::{Digest, Sha256};

const NAME_CHARS_MAX: usize = 100;
/// How much of a file is read at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// The lines of a batch, in a file without a name: it is gone when this is dropped, or the process dies.
///
/// ```
/// use hapax_effects::enrich::BatchFile;
///
/// let mut file = BatchFile::new(&std::env::temp_dir())?;
/// file.push(r#"{"custom_id":"a"}"#)?;
/// assert_eq!(file.bytes(), 18);
/// assert!(BatchFile::new("/dev/null".as_ref()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct BatchFile {
    file: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
}

impl BatchFile {
    /// An empty file in this folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile_in(folder)?),
            hash: Sha256::new(),
            bytes: 0,
        })
    }

    /// Adds a line. It may block for as long as a disk takes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn push(&mut self, line: &str) -> io::Result<()> {
        for part in [line.as_bytes(), b"\n"] {
            self.file.write_all(part)?;
            self.hash.update(part);
            self.bytes += part.len() as u64;
        }
        Ok(())
    }

    /// How large it is.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A form with `purpose=batch` and the file. Every try reads it anew.
#[derive(Clone)]
pub(super) struct Form {
    pub(super) content_type: String,
    head: Bytes,
    lines: Arc<File>,
    lines_bytes: u64,
    tail: Bytes,
}

impl Form {
    /// # Errors
    /// Those of the file system.
    pub(super) fn new(file_name: &str, lines: BatchFile) -> io::Result<Self> {
        // No content holds a hash of itself.
        let hash = Fingerprint::from_bytes(lines.hash.finalize().into());
        let boundary = format!("hapax-{}", hash.hex());
        let name = plain(file_name);
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
             --{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: application/jsonl\r\n\r\n"
        );
        let file = lines.file.into_inner().map_err(io::Error::from)?;
        Ok(Self {
            content_type: format!("multipart/form-data; boundary={boundary}"),
            head: head.into(),
            lines: Arc::new(file),
            lines_bytes: lines.bytes,
            tail: format!("\r\n--{boundary}--\r\n").into(),
        })
    }

    /// How many bytes it sends.
    pub(super) fn bytes(&self) -> u64 {
        self.lines_bytes + (self.head.len() + self.tail.len()) as u64
    }

    /// What it sends, piece by piece.
    pub(super) fn pieces(&self) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        let (lines, end) = (Arc::clone(&self.lines), self.lines_bytes);
        let of_lines = stream::try_unfold(0, move |at| {
            let lines = Arc::clone(&lines);
            async move {
                if at == end {
                    return Ok(None);
                }
                let read = tokio::task::spawn_blocking(move || piece(&lines, at, end));
                let piece = read.await.map_err(io::Error::other)??;
                let next = at + piece.len() as u64;
                Ok(Some((piece, next)))
            }
        });
        let whole = |bytes: &Bytes| stream::iter([Ok(bytes.clone())]);
        whole(&self.head).chain(of_lines).chain(whole(&self.tail))
    }
}

/// The bytes from here on, and not all of them.
fn piece(lines: &File, at: u64, end: u64) -> io::Result<Bytes> {
    let bytes = usize::try_from(PIECE_BYTES.min(end - at)).map_err(io::Error::other)?;
    let mut piece = vec![0; bytes];
    lines.read_exact_at(&mut piece, at)?;
    Ok(piece.into())
}

/// A name that ends no header.
fn plain(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let name: String = name
        .chars()
        .take(NAME_CHARS_MAX)
        .map(|letter| if is_plain(letter) { letter } else { '_' })
        .collect();
    if name.is_empty() {
        "batch.jsonl".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(name: &str, lines: &[&str]) -> Form {
        let mut file = BatchFile::new(&std::env::temp_dir()).unwrap();
        for line in lines {
            file.push(line).unwrap();
        }
        Form::new(name, file).unwrap()
    }

    async fn sent(form: &Form) -> Vec<Bytes> {
        let pieces = form.pieces().map(Result::unwrap).collect::<Vec<Bytes>>();
        pieces.await
    }

    #[tokio::test]
    async fn a_file_goes_in_byte_for_byte_and_its_name_ends_no_header() {
        let form = form("a\"\r\nx: y/../b.jsonl", &["{}\r", "--x"]);
        let text = String::from_utf8(sent(&form).await.concat()).unwrap();
        assert_eq!(text.len() as u64, form.bytes());
        assert!(text.contains("filename=\"a___x__y_.._b.jsonl\"\r\n"));
        assert!(text.contains("\r\n\r\n{}\r\n--x\n\r\n--hapax-"));
        assert!(text.contains("name=\"purpose\"\r\n\r\nbatch\r\n"));
        assert!(
            form.content_type
                .starts_with("multipart/form-data; boundary=hapax-")
        );
        assert_eq!(plain(""), "batch.jsonl");
    }

    #[tokio::test]
    async fn a_large_file_is_read_in_pieces_and_as_often_as_it_is_sent() {
        let line = "x".repeat(1 << 20);
        let form = form("a", &[line.as_str(); 3]);
        let first = sent(&form).await;
        assert!(first.iter().all(|piece| piece.len() as u64 <= PIECE_BYTES));
        let whole = first.concat();
        assert_eq!(whole.len() as u64, form.bytes());
        assert!(sent(&form).await.concat() == whole);
    }
}

//! Where canonical bytes go: into a buffer or straight into a hash. No sink can refuse bytes.

use sha2::{Digest, Sha256};

/// Takes canonical bytes in order.
///
/// ```
/// use hapax_core::canonical::{Document, Selection, Sink};
///
/// struct Count(usize);
/// impl Sink for Count {
///     fn put(&mut self, bytes: &[u8]) {
///         self.0 += bytes.len();
///     }
/// }
///
/// let document = Document::parse(b"[ 1, 2 ]")?;
/// let mut count = Count(0);
/// document.write(&Selection::default(), &mut count);
/// assert_eq!(count.0, "[1,2]".len());
/// # Ok::<(), hapax_core::canonical::Reject>(())
/// ```
pub trait Sink {
    /// Takes the next bytes; slices come in all sizes, empty ones included.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

const BUFFER_BYTES: usize = 1024;

/// A SHA-256 that gathers small slices before it hashes them.
///
/// ```
/// use hapax_core::canonical::{Sha256Sink, Sink};
///
/// let mut sink = Sha256Sink::default();
/// sink.put(b"{}");
/// assert_eq!(sink.finish()[..2], [0x44, 0x13]);
/// ```
#[derive(Debug, Clone)]
pub struct Sha256Sink {
    hash: Sha256,
    buffer: [u8; BUFFER_BYTES],
    used: usize,
}

impl Sha256Sink {
    /// The hash of everything that was put in.
    #[must_use]
    pub fn finish(mut self) -> [u8; 32] {
        self.hash.update(&self.buffer[..self.used]);
        self.hash.finalize().into()
    }
}

impl Default for Sha256Sink {
    fn default() -> Self {
        Self {
            hash: Sha256::new(),
            buffer: [0; BUFFER_BYTES],
            used: 0,
        }
    }
}

impl Sink for Sha256Sink {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        if let Some(free) = self.buffer.get_mut(self.used..end) {
            free.copy_from_slice(bytes);
            self.used = end;
            return;
        }
        self.hash.update(&self.buffer[..self.used]);
        self.used = 0;
        if let Some(free) = self.buffer.get_mut(..bytes.len()) {
            free.copy_from_slice(bytes);
            self.used = bytes.len();
        } else {
            self.hash.update(bytes);
        }
    }
}

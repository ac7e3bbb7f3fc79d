//! The key a caller claims. How a key is found in a request is not its business.

use std::fmt;
use std::sync::Arc;

use crate::error::Invalid;

/// The word a caller chose, or that was derived for it, to name one thing that is done once.
///
/// 1 to 255 visible ASCII characters, so that it fits any header, log line and index.
///
/// ```
/// use hapax_core::Key;
///
/// let key = Key::new("order-7f3a")?;
/// assert_eq!(key.as_str(), "order-7f3a");
/// assert!(Key::new("").is_err());
/// assert!(Key::new("two words").is_err(), "a space is not visible");
/// assert!(Key::new(&"k".repeat(256)).is_err());
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(Arc<str>);

impl Key {
    /// The longest key in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Checks the form of `text` and keeps it as a key.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, longer than [`Key::BYTES_MAX`] or holds anything but visible ASCII.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        visible("key", text, Self::BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first text in the order of bytes behind every key that begins like this one.
    ///
    /// ```
    /// let key = hapax_core::Key::new("order-7")?;
    /// assert_eq!(key.beyond(), "order-8");
    /// # Ok::<(), hapax_core::Invalid>(())
    /// ```
    #[must_use]
    pub fn beyond(&self) -> String {
        let mut text = self.0.to_string();
        // A key is of visible ASCII, so its last character has a next one.
        let last = text.pop().map_or('!', |last| char::from(last as u8 + 1));
        text.push(last);
        text
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Refuses what is not 1 to `bytes_max` visible ASCII characters.
pub(crate) fn visible(what: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(what, "is empty"));
    }
    if text.len() > bytes_max {
        return Err(Invalid::new(
            what,
            format!(
                "is {} bytes long; at most {bytes_max} are allowed",
                text.len()
            ),
        ));
    }
    match text.bytes().position(|byte| !(0x21..=0x7e).contains(&byte)) {
        Some(at) => Err(Invalid::new(
            what,
            format!("holds a character at byte {at} that is not visible ASCII"),
        )),
        None => Ok(()),
    }
}

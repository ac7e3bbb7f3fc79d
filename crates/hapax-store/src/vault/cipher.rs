//! AES-256-GCM-SIV with a random nonce: `head`, nonce, ciphertext and tag in one buffer.
//! A repeated nonce would tell that two texts are equal, and nothing more.

use std::ops::Range;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};

const TAG_BYTES: usize = 16;

/// One key of the cipher. Its bytes are the library's, which wipes them when it is dropped.
pub(super) struct Cipher(RandomizedNonceKey);

impl Cipher {
    /// The cipher with this key, if it is 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        RandomizedNonceKey::new(&AES_256_GCM_SIV, key)
            .ok()
            .map(Self)
    }

    /// `head`, then `plain` sealed.
    pub(super) fn seal<A: AsRef<[u8]>>(
        &self,
        head: &[u8],
        aad: Aad<A>,
        plain: &[u8],
    ) -> Option<Vec<u8>> {
        let begin = head.len() + NONCE_LEN;
        let mut out = Vec::with_capacity(begin + plain.len() + TAG_BYTES);
        out.extend_from_slice(head);
        out.extend_from_slice(&[0; NONCE_LEN]);
        out.extend_from_slice(plain);
        let (nonce, tag) = self
            .0
            .seal_in_place_separate_tag(aad, &mut out[begin..])
            .ok()?;
        out[head.len()..begin].copy_from_slice(nonce.as_ref());
        out.extend_from_slice(tag.as_ref());
        Some(out)
    }

    /// Opens in place what follows the first `head` bytes, and says where the plain bytes are.
    pub(super) fn open<A: AsRef<[u8]>>(
        &self,
        head: usize,
        aad: Aad<A>,
        sealed: &mut [u8],
    ) -> Option<Range<usize>> {
        let begin = head + NONCE_LEN;
        let nonce = sealed.get(head..begin)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self
            .0
            .open_in_place(nonce, aad, sealed.get_mut(begin..)?)
            .ok()?;
        Some(begin..begin + plain.len())
    }
}

//! The keys of requests that carry none, made of tenant, route, content and caller. Who the caller is, others say.

use hapax_core::{Fingerprint, Key, Principal, Space, Tenant};

/// What marks the key of one principal's request. In the other form a hexadecimal digit stands here.
const OF_A_PRINCIPAL: char = '~';

/// `{tenant}:{space}:{content}`, or with a principal `{tenant}:{space}:~{content and principal}`.
///
/// # Panics
/// Never: a space is short enough for its derived keys.
pub(super) fn key(
    tenant: Tenant,
    space: &Space,
    content: Fingerprint,
    principal: Option<Principal>,
) -> Key {
    let whose = principal.filter(|principal| *principal != Principal::anonymous());
    let tail = match whose {
        None => content.short(),
        Some(principal) => {
            let parts = [
                &b"hapax derived key"[..],
                principal.as_bytes(),
                content.as_bytes(),
            ];
            format!("{OF_A_PRINCIPAL}{}", Fingerprint::of_parts(&parts).short())
        }
    };
    let key = format!("{}:{space}:{tail}", tenant.simple());
    Key::new(&key).expect("a space is short enough for its derived keys")
}

/// Whether a key has the form of those that are derived for a principal. A caller who could send one could take the key
/// of somebody else's next request.
///
/// ```
/// use hapax::core::{Key, Space, Tenant};
/// use hapax::layer::is_reserved;
///
/// let space = Space::new("POST:orders")?;
/// let is_reserved = |text: &str| is_reserved(&Key::new(text).unwrap(), Tenant::DEFAULT, &space);
/// assert!(is_reserved("00000000000000000000000000000000:POST:orders:~44136fa355b3678a"));
/// assert!(!is_reserved("00000000000000000000000000000000:POST:orders:44136fa355b3678a"));
/// assert!(!is_reserved("order-7"));
/// # Ok::<(), hapax::core::Invalid>(())
/// ```
#[must_use]
pub fn is_reserved(key: &Key, tenant: Tenant, space: &Space) -> bool {
    let Some((head, tail)) = key.as_str().rsplit_once(OF_A_PRINCIPAL) else {
        return false;
    };
    let is_hash = tail.len() == 16
        && tail
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash && head == format!("{}:{space}:", tenant.simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(text: &str) -> Space {
        Space::new(text).unwrap()
    }

    #[test]
    fn each_principal_has_keys_of_its_own_and_nobody_has_the_documented_form() {
        let (space, content) = (space("POST:orders"), Fingerprint::of(b"{}"));
        let of = |principal| key(Tenant::DEFAULT, &space, content, principal);
        let (ann, bob) = (Principal::of(b"ann"), Principal::of(b"bob"));
        assert_eq!(of(Some(ann)), of(Some(ann)));
        assert_ne!(of(Some(ann)), of(Some(bob)));
        let plain = format!(
            "{}:POST:orders:{}",
            Tenant::DEFAULT.simple(),
            content.short()
        );
        assert_eq!(of(None).as_str(), plain);
        assert_eq!(of(Some(Principal::anonymous())), of(None));
        let other = key(Tenant::DEFAULT, &space, Fingerprint::of(b"[]"), Some(ann));
        assert_ne!(other, of(Some(ann)), "another content");
    }

    #[test]
    fn a_key_of_one_principal_is_never_one_of_nobody_and_is_reserved() {
        let content = Fingerprint::of(b"{}");
        for text in ["POST:orders", "PUT:a~b", &"P".repeat(Space::BYTES_MAX)] {
            let space = space(text);
            let of = |principal| key(Tenant::DEFAULT, &space, content, principal);
            let (mine, plain) = (of(Some(Principal::of(b"ann"))), of(None));
            assert_eq!(mine.as_str().len(), plain.as_str().len() + 1);
            assert!(is_reserved(&mine, Tenant::DEFAULT, &space), "{mine}");
            assert!(!is_reserved(&plain, Tenant::DEFAULT, &space), "{plain}");
        }
    }

    #[test]
    fn what_only_looks_alike_is_not_reserved() {
        let (space, tenant) = (space("POST:orders"), Tenant::DEFAULT.simple());
        for text in [
            format!("{tenant}:POST:orders:~44136fa355b3678"),
            format!("{tenant}:POST:orders:~44136FA355B3678A"),
            format!("{tenant}:POST:order:~44136fa355b3678a"),
            format!("x{tenant}:POST:orders:~44136fa355b3678a"),
            "~44136fa355b3678a".to_owned(),
        ] {
            let key = Key::new(&text).unwrap();
            assert!(!is_reserved(&key, Tenant::DEFAULT, &space), "{text}");
        }
    }
}

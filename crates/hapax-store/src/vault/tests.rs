//! What a vault promises without any store.

use hapax_core::Fingerprint;

use super::*;
use crate::codec;

fn master(byte: u8) -> MasterKey {
    let mut bytes = [7; 32];
    bytes[0] = byte;
    MasterKey::parse(&data_encoding::HEXLOWER.encode(&bytes)).unwrap()
}

fn vault() -> Vault {
    Vault::new(master(1), Vec::new())
}

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

#[test]
fn what_is_sealed_opens_for_the_same_record_and_column_only() {
    let vault = vault();
    let ring = vault
        .ring(&[vault.mint(uuid(1), None).unwrap()])
        .unwrap()
        .unwrap();
    let here = Seal::new(Some(&ring), uuid(1), uuid(2));
    let body = here.body("request_body", b"a secret").unwrap();
    assert!(!body.windows(6).any(|part| part == b"secret"));
    assert_eq!(
        here.open_body("request_body", body.clone()).unwrap(),
        &b"a secret"[..]
    );
    for (seal, column) in [
        (here, "response_body"),
        (Seal::new(Some(&ring), uuid(1), uuid(3)), "request_body"),
        (Seal::new(Some(&ring), uuid(9), uuid(2)), "request_body"),
    ] {
        let error = seal.open_body(column, body.clone()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("ciphertext_invalid"), "{error}");
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let vault = vault();
    let ring = vault
        .ring(&[vault.mint(uuid(1), None).unwrap()])
        .unwrap()
        .unwrap();
    let seal = Seal::new(Some(&ring), uuid(1), uuid(2));
    let body = seal.body("request_body", b"pay 10").unwrap();
    for at in 0..body.len() {
        let mut changed = body.clone();
        changed[at] ^= 0x80;
        let error = seal.open_body("request_body", changed).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "byte {at}");
    }
    for length in 0..body.len() {
        let cut = body[..length].to_vec();
        assert!(
            seal.open_body("request_body", cut).is_err(),
            "{length} bytes"
        );
    }
}

#[test]
fn plain_values_from_before_stay_readable_and_look_like_nothing_else() {
    let vault = vault();
    let ring = vault
        .ring(&[vault.mint_beside_plain(uuid(1)).unwrap()])
        .unwrap()
        .unwrap();
    let plain = Seal::new(None, uuid(1), uuid(2));
    let later = Seal::new(Some(&ring), uuid(1), uuid(2));
    for text in ["", "/a?b=c", "\u{2}", "\u{2}=x", "=\u{2}"] {
        let stored = plain.text("request_path", text).unwrap();
        assert_eq!(later.open_text("request_path", stored).unwrap(), text);
        let sealed = later.text("request_path", text).unwrap();
        assert_eq!(later.open_text("request_path", sealed).unwrap(), text);
    }
    let headers = vec![("a".to_owned(), bytes::Bytes::from_static(b"\xff"))];
    for seal in [plain, later] {
        let stored = seal.headers(&headers).unwrap();
        assert_eq!(later.open_headers(&stored).unwrap(), headers);
    }
}

#[test]
fn once_all_is_sealed_what_is_not_is_refused() {
    let vault = vault();
    let first = vault.mint_beside_plain(uuid(1)).unwrap();
    let sealed = vault.seal_off(&first).unwrap();
    let ring = |stored: &[Wrapped]| vault.ring(stored).unwrap().unwrap();
    let made = |text: &str| Seal::new(None, uuid(1), uuid(2)).text("c", text).unwrap();
    let headers = Seal::new(None, uuid(1), uuid(2)).headers(&[]).unwrap();
    for (ring, is_refused) in [
        (ring(std::slice::from_ref(&first)), false),
        (ring(std::slice::from_ref(&sealed)), true),
        (ring(&[vault.mint(uuid(1), None).unwrap()]), true),
        (Ring::bare(), true),
    ] {
        let seal = Seal::new(Some(&ring), uuid(1), uuid(2));
        let body = codec::pack(b"planted");
        let answers = [
            seal.open_body("response_body", body).map(drop),
            seal.open_text("c", made("planted")).map(drop),
            seal.open_text("c", made("\u{2}planted")).map(drop),
            seal.open_headers(&headers).map(drop),
            seal.open_asked(vec![0; 32], "abcd".to_owned(), true)
                .map(drop),
            seal.open_asked(vec![0; 32], String::new(), true).map(drop),
        ];
        for answer in answers {
            let said = answer.err().map(|error| error.to_string());
            assert_eq!(said.is_some(), is_refused, "{said:?}");
            assert!(said.is_none_or(|said| said.contains("ciphertext_invalid")));
        }
        // Where nothing was said there is nothing to seal.
        assert_eq!(seal.open_text("c", String::new()).unwrap(), "");
        assert!(seal.open_asked(vec![0; 32], String::new(), false).is_ok());
    }
}

#[test]
fn that_all_is_sealed_cannot_be_taken_off_a_key() {
    let vault = vault();
    let first = vault.mint_beside_plain(uuid(1)).unwrap();
    let sealed = vault.seal_off(&first).unwrap();
    assert_eq!((sealed.key_id, sealed.number), (first.key_id, first.number));
    // Nothing stored beside the key says so: it is in what the key is bound to, for every key that follows too.
    let ring = vault.ring(std::slice::from_ref(&sealed)).unwrap().unwrap();
    let second = vault.mint(uuid(1), Some(&ring)).unwrap();
    for stored in [&sealed, &second] {
        let both = Vault::new(master(2), vec![master(1)]);
        for stored in [stored.clone(), both.rewrap(stored).unwrap()] {
            assert!(both.ring(&[stored]).unwrap().unwrap().is_sealed());
        }
    }
    for at in 0..sealed.bytes.len() {
        let mut changed = sealed.clone();
        changed.bytes[at] ^= 1;
        assert!(vault.ring(&[changed]).is_err(), "byte {at}");
    }
}

#[test]
fn the_stored_fingerprint_is_a_keyed_hash_that_outlives_a_new_data_key() {
    let vault = vault();
    let first = vault.mint(uuid(1), None).unwrap();
    let young = vault.ring(std::slice::from_ref(&first)).unwrap().unwrap();
    let second = vault.mint(uuid(1), Some(&young)).unwrap();
    let old = vault.ring(&[first, second]).unwrap().unwrap();
    assert_ne!(young.newest_id(), old.newest_id());

    let asked = Fingerprint::of(b"asked");
    let (before, shown) = Seal::new(Some(&young), uuid(1), uuid(2))
        .asked(&asked, "abcd")
        .unwrap();
    let (after, _) = Seal::new(Some(&old), uuid(1), uuid(2))
        .asked(&asked, "abcd")
        .unwrap();
    assert_eq!(before, after);
    assert_ne!(before, asked.as_bytes());
    assert!(!shown.contains("abcd"));

    let seal = Seal::new(Some(&old), uuid(1), uuid(2));
    let opened = seal.open_asked(before, shown.clone(), true).unwrap();
    assert_eq!(opened, (asked.as_bytes().to_vec(), "abcd".to_owned()));
    let error = seal.open_asked(vec![0; 32], shown, true).unwrap_err();
    assert!(error.to_string().contains("ciphertext_invalid"), "{error}");
}

#[test]
fn a_missing_key_is_named() {
    let vault = vault();
    let ring = vault
        .ring(&[vault.mint(uuid(1), None).unwrap()])
        .unwrap()
        .unwrap();
    let body = Seal::new(Some(&ring), uuid(1), uuid(2))
        .body("request_body", b"x")
        .unwrap();
    let error = Seal::new(None, uuid(1), uuid(2))
        .open_body("request_body", body)
        .unwrap_err();
    let id = ring.newest_id().unwrap().to_string();
    assert!(error.to_string().contains(&id), "{error}");
}

#[test]
fn a_new_master_key_takes_over_with_the_old_one_beside_it_and_not_without() {
    let old = vault().mint(uuid(1), None).unwrap();
    let both = Vault::new(master(2), vec![master(1)]);
    let new = both.rewrap(&old).unwrap();
    assert_eq!(new.key_id, old.key_id);
    let alone = Vault::new(master(2), Vec::new());
    assert!(alone.ring(&[new]).unwrap().unwrap().has(old.key_id));
    let error = alone.ring(std::slice::from_ref(&old)).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsafe);
    assert!(error.to_string().contains(&old.kek_id), "{error}");
}

#[test]
fn a_wrapped_key_moved_to_another_tenant_is_refused() {
    let vault = vault();
    let mut moved = vault.mint(uuid(1), None).unwrap();
    moved.tenant = uuid(2);
    let error = vault.ring(&[moved]).unwrap_err();
    assert!(error.to_string().contains("ciphertext_invalid"), "{error}");
}

#[test]
fn no_key_is_shown() {
    let vault = vault();
    vault
        .keep(uuid(1), &[vault.mint(uuid(1), None).unwrap()])
        .unwrap();
    let shown = format!("{vault:?}");
    assert!(
        !shown.contains("0707") && !shown.contains("7, 7"),
        "{shown}"
    );
}

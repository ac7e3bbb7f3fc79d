//! Which keys are taken, and that a public one is never a secret.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use data_encoding::BASE64_MIME;
use serde_json::json;

use super::super::tests::{SECRET_TEXT, believed, claims, hmac, jwt_with, signed, unauthorized};
use super::{Algorithm, DecodingKey, OsString, Usage};

/// What signs a message.
type Sign<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

fn pem(name: &str, der: &[u8]) -> String {
    let text = BASE64_MIME.encode(der);
    format!("-----BEGIN {name}-----\n{text}-----END {name}-----\n")
}

fn public(key: &impl AsDer<PublicKeyX509Der<'static>>) -> String {
    pem("PUBLIC KEY", key.as_der().unwrap().as_ref())
}

fn read(contents: &str, algorithms: &[Algorithm]) -> Result<DecodingKey, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), contents).unwrap();
    let name = file.path().to_str().unwrap();
    super::read(name, None, algorithms).map_err(|why| {
        assert!(why.is::<Usage>());
        why.to_string()
    })
}

#[test]
fn public_keys_verify_and_are_no_secrets() {
    let random = SystemRandom::new();
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let ed = Ed25519KeyPair::generate().unwrap();
    let by_rsa = |message: &[u8]| {
        let mut signature = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
            .unwrap();
        signature
    };
    let by_ec = |message: &[u8]| ec.sign(&random, message).unwrap().as_ref().to_vec();
    let by_edwards = |message: &[u8]| ed.sign(message).as_ref().to_vec();
    let keys: [(&str, String, Sign<'_>); 3] = [
        ("RS256", public(rsa.public_key()), &by_rsa),
        ("ES256", public(ec.public_key()), &by_ec),
        ("EdDSA", public(ed.public_key()), &by_edwards),
    ];
    let good = claims(&json!({}));
    for (name, pem, sign) in &keys {
        let algorithm: Algorithm = name.parse().unwrap();
        let key = read(pem, &[algorithm]).unwrap();
        let jwt = jwt_with("tenant_claim = 'tenant_id'", name, key);
        let token = signed(&json!({"alg": name}), &good, sign);
        assert!(believed(&jwt, &token).is_ok(), "{name}");
        // Whoever has the public key must not be able to sign with it as if it were a secret.
        for bytes in [pem.as_bytes(), jwt.key.try_get_as_bytes().unwrap()] {
            let confused = signed(&json!({"alg": "HS256"}), &good, |text| hmac(bytes, text));
            assert_eq!(believed(&jwt, &confused), unauthorized(), "{name}");
        }
        let why = read(pem, &[Algorithm::HS256]).unwrap_err();
        assert!(why.contains("jwt_algorithms"), "{why}");
        for (other, ..) in keys.iter().filter(|(other, ..)| other != name) {
            let why = read(pem, &[other.parse().unwrap()]).unwrap_err();
            assert!(why.contains("no public key for"), "{why}");
        }
    }
    let why = read(&keys[1].1, &[Algorithm::ES256, Algorithm::ES384]).unwrap_err();
    assert!(why.contains("P-384"), "{why}");
    let both = format!("{}{}", keys[0].1, keys[0].1);
    assert!(
        read(&both, &[Algorithm::RS256])
            .unwrap_err()
            .contains("more than one")
    );
}

#[test]
fn a_key_that_cannot_be_used_is_refused_with_what_to_do() {
    let rs = &[Algorithm::RS256][..];
    let hs = &[Algorithm::HS256][..];
    for (contents, algorithms, expected) in [
        (pem("PRIVATE KEY", b"x"), rs, "-pubout"),
        (pem("RSA PRIVATE KEY", b"x"), rs, "-pubout"),
        (pem("CERTIFICATE", b"x"), rs, "openssl x509"),
        (pem("PUBLIC KEY", b"hunter2"), rs, "BEGIN PUBLIC KEY"),
        ("hunter2".to_owned(), rs, "BEGIN PUBLIC KEY"),
        (String::new(), rs, "BEGIN PUBLIC KEY"),
        ("hunter2\n".to_owned(), hs, "32 bytes"),
        ("x".repeat(70_000), hs, "the key alone"),
    ] {
        let why = read(&contents, algorithms).unwrap_err();
        assert!(why.contains(expected) && !why.contains("hunter2"), "{why}");
    }
    let with = |file: &str, secret: Option<&str>, algorithms: &[Algorithm]| {
        super::read(file, secret.map(OsString::from), algorithms).map_err(|why| why.to_string())
    };
    for (file, secret, algorithms, expected) in [
        ("", None, hs, "set HAPAX_PROXY_JWT_SECRET"),
        ("", Some(""), hs, "set HAPAX_PROXY_JWT_SECRET"),
        ("", None, rs, "PEM file in proxy.jwt_key_file"),
        ("", Some(SECRET_TEXT), rs, "takes a public key"),
        ("", Some("hunter2"), hs, "32 bytes"),
        ("k.pem", Some(SECRET_TEXT), hs, "keep one"),
        ("/no/such/file", None, hs, "/no/such/file"),
    ] {
        let why = with(file, secret, algorithms).unwrap_err();
        assert!(why.contains(expected) && !why.contains("hunter2"), "{why}");
        assert!(!why.contains(SECRET_TEXT), "{why}");
    }
    let from_file = read(&format!("{SECRET_TEXT}\r\n"), hs).unwrap();
    let from_variable = with("", Some(SECRET_TEXT), hs).unwrap();
    for key in [from_file, from_variable] {
        assert_eq!(key.try_get_as_bytes().unwrap(), SECRET_TEXT.as_bytes());
    }
}

//! The key that tokens are checked with, from a file or a variable. What it cannot use it refuses at start,
//! in words that hold nothing of the key.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;

use anyhow::Result;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};

use crate::config::jwt::SECRET;
use crate::exit::Usage;

/// The largest key file.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// RFC 7518, 3.2: a secret shorter than its hash can be guessed from a token.
const SECRET_BYTES_MIN: usize = 32;

/// An RSA key of 2048 bits, as DER, is longer; a smaller one never verifies.
const RSA_DER_BYTES_MIN: usize = 256;

/// The key for these algorithms, which are of one family.
///
/// # Errors
/// [`Usage`] with what to do, when there is no key, two, or one that does not fit.
pub(super) fn read(
    file: &str,
    secret: Option<OsString>,
    algorithms: &[Algorithm],
) -> Result<DecodingKey> {
    let Some(algorithm) = algorithms.first() else {
        return Err(Usage::error("proxy.jwt_algorithms is empty; name one"));
    };
    let family = algorithm.family();
    let is_secret = family == AlgorithmFamily::Hmac;
    match (file, secret.filter(|secret| !secret.is_empty())) {
        ("", None) if is_secret => Err(Usage::error(format!(
            "{algorithm:?} needs a secret; set {SECRET}, or name a file with it in proxy.jwt_key_file"
        ))),
        ("", None) => Err(Usage::error(format!(
            "{algorithm:?} needs the issuer's public key; name its PEM file in proxy.jwt_key_file"
        ))),
        ("", Some(_)) if !is_secret => Err(Usage::error(format!(
            "{SECRET} is set, but {algorithm:?} takes a public key; name its PEM file in proxy.jwt_key_file"
        ))),
        ("", Some(text)) => {
            let text = text.into_string().map_err(|_| {
                Usage::error(format!(
                    "{SECRET} is not UTF-8; put it into a file, and its name into proxy.jwt_key_file"
                ))
            })?;
            from_secret(text.as_bytes(), SECRET)
        }
        (_, Some(_)) => Err(Usage::error(format!(
            "{SECRET} and proxy.jwt_key_file are both set; keep one"
        ))),
        (file, None) => {
            let place = format!("proxy.jwt_key_file {file}");
            let bytes =
                contents(file).map_err(|why| Usage::error(format!("reading {place}: {why}")))?;
            if bytes.len() as u64 > KEY_BYTES_MAX {
                return Err(Usage::error(format!(
                    "{place} is over {KEY_BYTES_MAX} bytes; name a file with the key alone"
                )));
            }
            if is_secret {
                from_secret(&bytes, &place)
            } else {
                from_pem(&bytes, algorithms, &place)
            }
        }
    }
}

fn contents(file: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(KEY_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn from_secret(bytes: &[u8], place: &str) -> Result<DecodingKey> {
    // Editors and `echo` end a file with a line end that is no part of the secret.
    let secret = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
    if secret.trim_ascii_start().starts_with(b"-----BEGIN") {
        return Err(Usage::error(format!(
            "{place} holds a PEM key where HS256 and its like take a secret; whoever knows it could sign. Name \
             the key's algorithm in proxy.jwt_algorithms, as in [\"RS256\"]"
        )));
    }
    if secret.len() < SECRET_BYTES_MIN {
        return Err(Usage::error(format!(
            "{place} is shorter than {SECRET_BYTES_MIN} bytes and could be guessed; use a longer secret"
        )));
    }
    Ok(DecodingKey::from_secret(secret))
}

fn from_pem(bytes: &[u8], algorithms: &[Algorithm], place: &str) -> Result<DecodingKey> {
    let text = String::from_utf8_lossy(bytes);
    let refuse = |why: &str| Err(Usage::error(format!("{place} {why}")));
    if text.contains("PRIVATE KEY-----") {
        return refuse(
            "holds a private key, which only the issuer needs; give the public one, as `openssl pkey -pubout` \
             prints it",
        );
    }
    if text.contains("CERTIFICATE-----") {
        return refuse(
            "holds a certificate; give its public key, as `openssl x509 -pubkey -noout` prints it",
        );
    }
    if text.matches("-----BEGIN ").count() > 1 {
        return refuse("holds more than one key; keep one");
    }
    let parsed = match algorithms.first().map(|algorithm| algorithm.family()) {
        Some(AlgorithmFamily::Rsa) => DecodingKey::from_rsa_pem(bytes).ok(),
        Some(AlgorithmFamily::Ec) => DecodingKey::from_ec_pem(bytes).ok(),
        Some(AlgorithmFamily::Ed) => DecodingKey::from_ed_pem(bytes).ok(),
        Some(AlgorithmFamily::Hmac) | None => None,
    };
    // A key that does not fit verifies nothing: better no start than a 401 for everybody.
    match parsed.filter(|key| algorithms.iter().all(|algorithm| fits(key, *algorithm))) {
        Some(key) => Ok(key),
        None => refuse(&format!(
            "holds no public key for {algorithms:?}; give one that begins with -----BEGIN PUBLIC KEY-----, and \
             name its algorithms only: RSA keys have 2048 bits or more, ES256 is of P-256, ES384 of P-384, EdDSA \
             of Ed25519"
        )),
    }
}

/// Whether the key is long enough for the algorithm, or on its curve.
fn fits(key: &DecodingKey, algorithm: Algorithm) -> bool {
    let bytes = key.try_get_as_bytes().map_or(0, <[u8]>::len);
    match (algorithm.family(), algorithm) {
        (AlgorithmFamily::Rsa, _) => bytes >= RSA_DER_BYTES_MIN,
        // A point, not compressed: one byte and two coordinates.
        (AlgorithmFamily::Ec, Algorithm::ES256) => bytes == 1 + 2 * 32,
        (AlgorithmFamily::Ec, _) => bytes == 1 + 2 * 48,
        (AlgorithmFamily::Ed, _) => bytes == 32,
        (AlgorithmFamily::Hmac, _) => false,
    }
}

#[cfg(test)]
mod tests;

//! The `[proxy]` keys about JWTs: which claim names the tenant, and what its tokens are signed with.
//! It opens no key file and reads no token.

use anyhow::Result;
use jsonwebtoken::Algorithm;

use super::proxy::Proxy;
use crate::exit::Usage;

/// The variable that holds the secret of HS256 and its like. It is never part of a
/// [`Config`](super::Config), which may be shown.
pub(crate) const SECRET: &str = "HAPAX_PROXY_JWT_SECRET";

const ALGORITHMS: &str =
    "HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA";

/// Which claim names the tenant, and how its token is signed.
#[derive(Clone, Debug)]
pub(crate) struct TenantClaim {
    /// Where the claim is, from the outside in.
    pub(crate) path: Vec<String>,
    /// At least one, and all for one kind of key.
    pub(crate) algorithms: Vec<Algorithm>,
}

impl Proxy {
    /// The claim that names the tenant, if one does.
    ///
    /// # Errors
    /// [`Usage`] when the keys about tokens contradict each other or say too little.
    pub(crate) fn claim(&self) -> Result<Option<TenantClaim>> {
        if self.tenant_claim.is_empty() {
            return self.without_claim().map(|()| None);
        }
        if !self.tenant_header.is_empty() {
            return Err(Usage::error(
                "proxy.tenant_claim and proxy.tenant_header are both set; keep the one that names the tenant",
            ));
        }
        Ok(Some(TenantClaim {
            path: path(&self.tenant_claim)?,
            algorithms: algorithms(&self.jwt_algorithms)?,
        }))
    }

    /// Nobody may believe that tokens are checked when they are not.
    fn without_claim(&self) -> Result<()> {
        for (key, is_set) in [
            ("jwt_algorithms", !self.jwt_algorithms.is_empty()),
            ("jwt_key_file", !self.jwt_key_file.is_empty()),
            ("jwt_issuer", !self.jwt_issuer.is_empty()),
            ("jwt_audience", !self.jwt_audience.is_empty()),
        ] {
            if is_set {
                return Err(Usage::error(format!(
                    "proxy.{key} is set and proxy.tenant_claim is not, so no token would be checked; set \
                     tenant_claim, or leave {key} out"
                )));
            }
        }
        Ok(())
    }
}

/// The names on the way to the claim. A URL, as some issuers prefix theirs with, is one name.
fn path(claim: &str) -> Result<Vec<String>> {
    let names: Vec<String> = if claim.contains("://") {
        vec![claim.to_owned()]
    } else {
        claim.split('.').map(str::to_owned).collect()
    };
    if names
        .iter()
        .any(|name| name.is_empty() || name.trim() != name)
    {
        return Err(Usage::error(format!(
            "proxy.tenant_claim is {claim:?}; write a claim's name, or names joined by dots, as in \
             \"app_metadata.tenant_id\""
        )));
    }
    Ok(names)
}

fn algorithms(names: &[String]) -> Result<Vec<Algorithm>> {
    let mut found: Vec<Algorithm> = Vec::new();
    for name in names {
        let algorithm: Algorithm = name.parse().map_err(|_| {
            Usage::error(format!(
                "proxy.jwt_algorithms holds {name:?}; it takes {ALGORITHMS}"
            ))
        })?;
        // A public key is no secret: taken as one, everybody could sign with it.
        if let Some(other) = found.iter().find(|one| one.family() != algorithm.family()) {
            return Err(Usage::error(format!(
                "proxy.jwt_algorithms holds {other:?} and {name}, which take different keys; keep those of \
                 the one key there is"
            )));
        }
        found.push(algorithm);
    }
    if found.is_empty() {
        return Err(Usage::error(
            "proxy.tenant_claim is set and proxy.jwt_algorithms is empty; say what the tokens are signed with, \
             as in [\"RS256\"]",
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(text: &str) -> Result<Option<TenantClaim>, String> {
        let proxy: Proxy = toml::from_str(text).unwrap();
        proxy.claim().map_err(|why| {
            assert!(why.is::<Usage>());
            why.to_string()
        })
    }

    #[test]
    fn a_claim_is_a_name_or_names_joined_by_dots() {
        for (name, expected) in [
            ("tenant_id", &["tenant_id"][..]),
            ("app.tenant.id", &["app", "tenant", "id"]),
            (
                "https://shop.example/tenant",
                &["https://shop.example/tenant"],
            ),
        ] {
            let text = format!("tenant_claim = '{name}'\njwt_algorithms = ['RS256', 'PS512']");
            let found = claim(&text).unwrap().unwrap();
            assert_eq!(found.path, expected);
            assert_eq!(found.algorithms, [Algorithm::RS256, Algorithm::PS512]);
        }
        assert!(claim("").unwrap().is_none());
    }

    #[test]
    fn what_contradicts_itself_or_says_too_little_is_refused_with_what_to_do() {
        for (text, expected) in [
            (
                "tenant_claim = 'a'\ntenant_header = 'x-a'\njwt_algorithms = ['HS256']",
                "keep the one",
            ),
            ("tenant_claim = 'a'", "jwt_algorithms is empty"),
            (
                "tenant_claim = 'a'\njwt_algorithms = ['none']",
                "it takes HS256",
            ),
            (
                "tenant_claim = 'a'\njwt_algorithms = ['hs256']",
                "it takes HS256",
            ),
            (
                "tenant_claim = 'a'\njwt_algorithms = ['HS256', 'RS256']",
                "different keys",
            ),
            (
                "tenant_claim = 'a..b'\njwt_algorithms = ['HS256']",
                "joined by dots",
            ),
            (
                "tenant_claim = ' a'\njwt_algorithms = ['HS256']",
                "joined by dots",
            ),
            ("jwt_algorithms = ['HS256']", "set tenant_claim"),
            ("jwt_key_file = 'k.pem'", "set tenant_claim"),
            ("jwt_issuer = 'me'", "set tenant_claim"),
            ("jwt_audience = 'me'", "set tenant_claim"),
        ] {
            let why = claim(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}

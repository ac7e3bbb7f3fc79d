//! The `[proxy]` keys about JWTs: what is asked of them, and what they are signed with.
//! It opens no key file and reads no token.

use anyhow::Result;
use jsonwebtoken::Algorithm;
use toml::{Table, Value};

use super::Config;
use super::identity::JWT_SUBJECT;
use super::proxy::Proxy;
use crate::exit::Usage;

/// The variable that holds the secret of HS256 and its like. It is never part of a
/// [`Config`](super::Config), which may be shown.
pub(crate) const SECRET: &str = "HAPAX_PROXY_JWT_SECRET";

const ALGORITHMS: &str =
    "HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA";

/// How tokens are checked, and what they are asked for beside who sends them.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// Where the claim that names the tenant is, from the outside in, if one does.
    pub(crate) tenant: Option<Vec<String>>,
    /// At least one, and all for one kind of key.
    pub(crate) algorithms: Vec<Algorithm>,
}

impl Config {
    /// How tokens are checked, if a tenant or a principal comes from one.
    ///
    /// # Errors
    /// [`Usage`] when the keys about tokens contradict each other or say too little.
    pub(crate) fn tokens(&self) -> Result<Option<Tokens>> {
        let asks = |route: &&Table| {
            let principal = route.get("principal").and_then(Value::as_str);
            principal == Some(JWT_SUBJECT)
        };
        let route = self.routes.iter().find(asks).map(|route| {
            let pattern = route.get("pattern").and_then(Value::as_str);
            format!("principal of route '{}'", pattern.unwrap_or_default())
        });
        self.proxy.tokens(route.as_deref())
    }
}

impl Proxy {
    /// The same, where `route` names the key of a route that asks for a token's subject, if there is one.
    fn tokens(&self, route: Option<&str>) -> Result<Option<Tokens>> {
        let asking = match route {
            _ if !self.tenant_claim.is_empty() => "proxy.tenant_claim",
            _ if self.principal == JWT_SUBJECT => "proxy.principal",
            Some(route) => route,
            None => return self.without_tokens().map(|()| None),
        };
        if !self.tenant_claim.is_empty() && !self.tenant_header.is_empty() {
            return Err(Usage::error(
                "proxy.tenant_claim and proxy.tenant_header are both set; keep the one that names the tenant",
            ));
        }
        let claim = Some(self.tenant_claim.as_str()).filter(|claim| !claim.is_empty());
        Ok(Some(Tokens {
            tenant: claim.map(path).transpose()?,
            algorithms: algorithms(&self.jwt_algorithms, asking)?,
        }))
    }

    /// Nobody may believe that tokens are checked when they are not.
    fn without_tokens(&self) -> Result<()> {
        for (key, is_set) in [
            ("jwt_algorithms", !self.jwt_algorithms.is_empty()),
            ("jwt_key_file", !self.jwt_key_file.is_empty()),
            ("jwt_issuer", !self.jwt_issuer.is_empty()),
            ("jwt_audience", !self.jwt_audience.is_empty()),
        ] {
            if is_set {
                return Err(Usage::error(format!(
                    "proxy.{key} is set, and neither proxy.tenant_claim nor principal = \"{JWT_SUBJECT}\" is, so no \
                     token would be checked; set tenant_claim or principal, or leave {key} out"
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

/// The algorithms for the key `asking`, which needs tokens to be checked.
fn algorithms(names: &[String], asking: &str) -> Result<Vec<Algorithm>> {
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
        return Err(Usage::error(format!(
            "{asking} is set and proxy.jwt_algorithms is empty; say what the tokens are signed with, as in [\"RS256\"]"
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Option<Tokens>, String> {
        let config: Config = toml::from_str(&format!("[proxy]\n{text}")).unwrap();
        config.tokens().map_err(|why| {
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
            let found = tokens(&text).unwrap().unwrap();
            assert_eq!(found.tenant.unwrap(), expected);
            assert_eq!(found.algorithms, [Algorithm::RS256, Algorithm::PS512]);
        }
        assert!(tokens("").unwrap().is_none());
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
            ("principal = 'jwt:sub'", "proxy.principal is set"),
            (
                "principal = 'jwt:sub'\njwt_algorithms = ['none']",
                "it takes HS256",
            ),
            (
                "[[routes]]\npattern = 'POST:a'\nprincipal = 'jwt:sub'",
                "principal of route 'POST:a' is set",
            ),
        ] {
            let why = tokens(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn a_subject_is_asked_of_tokens_without_a_tenant() {
        for text in [
            "principal = 'jwt:sub'\njwt_algorithms = ['RS256']",
            "jwt_algorithms = ['RS256']\n[[routes]]\npattern = 'POST:a'\nprincipal = 'jwt:sub'",
        ] {
            let found = tokens(text).unwrap().unwrap();
            assert_eq!(found.tenant, None, "{text}");
        }
        let other =
            "jwt_algorithms = ['RS256']\n[[routes]]\npattern = 'POST:a'\nprincipal_cookie = 'sid'";
        assert!(tokens(other).unwrap_err().contains("set tenant_claim"));
    }
}

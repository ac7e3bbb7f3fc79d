//! Whose request it is by the word of a bearer JWT: checked in full, then its subject, and the tenant from a claim.
//! It makes no tokens, asks no issuer, and changes no header.

mod key;

use std::sync::Arc;

use anyhow::Result;
use hapax::problem::Problem;
use hapax_core::{Principal, Tenant};
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap};
use jsonwebtoken::{DecodingKey, Validation, decode};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::config::Config;
use crate::config::jwt::{SECRET, Tokens};
use crate::config::proxy::Proxy;
use crate::problem;

/// How far the clocks of the issuer and of this machine may be apart.
const LEEWAY_SECONDS: u64 = 30;

/// Checks tokens. Its key is not shown by Debug.
#[derive(Debug)]
pub(crate) struct Jwt {
    key: DecodingKey,
    validation: Validation,
    /// The claim that names the tenant as the configuration writes it, and where it is.
    claim: String,
    path: Option<Vec<String>>,
}

/// What a valid token says of who sends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bearer {
    /// Where a claim names it.
    pub(super) tenant: Option<Tenant>,
    /// The issuer's subject, the same in every token that is made for it; `None` when there is none.
    pub(super) principal: Option<Principal>,
}

impl Jwt {
    /// What checks tokens as the configuration says, if it says that they are checked.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) when the configuration cannot be followed or the key cannot be used.
    pub(crate) fn load(config: &Config) -> Result<Option<Arc<Self>>> {
        let Some(tokens) = config.tokens()? else {
            return Ok(None);
        };
        let secret = std::env::var_os(SECRET);
        let key = key::read(&config.proxy.jwt_key_file, secret, &tokens.algorithms)?;
        Ok(Some(Arc::new(Self::new(&config.proxy, tokens, key))))
    }

    fn new(config: &Proxy, tokens: Tokens, key: DecodingKey) -> Self {
        let mut validation = Validation {
            algorithms: tokens.algorithms,
            leeway: LEEWAY_SECONDS,
            validate_nbf: true,
            validate_aud: !config.jwt_audience.is_empty(),
            ..Validation::default()
        };
        let mut required = vec!["exp"];
        if !config.jwt_issuer.is_empty() {
            validation.set_issuer(&[&config.jwt_issuer]);
            required.push("iss");
        }
        if validation.validate_aud {
            validation.set_audience(&[&config.jwt_audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        Self {
            key,
            validation,
            claim: config.tenant_claim.clone(),
            path: tokens.tenant,
        }
    }

    /// Whether every writing request must carry a token that names its tenant.
    pub(super) fn names_tenant(&self) -> bool {
        self.path.is_some()
    }

    /// Who sends a request with these headers: 401 without a valid token, 400 when it names no tenant and one must.
    pub(super) fn identify(&self, headers: &HeaderMap) -> Result<Bearer, Box<Problem>> {
        let claims = self.claims(headers).map_err(|why| {
            // The client is told the same whatever was wrong.
            tracing::debug!(why, "a request without a valid token");
            metrics::counter!("hapax_auth_failures_total").increment(1);
            Box::new(problem::unauthorized())
        })?;
        let found = self.path.as_deref().map(|path| tenant(&claims, path));
        if let Some(None) = found {
            let message = format!(
                "the token is valid, but its claim {} is no UUID; get one that names the tenant",
                self.claim
            );
            let problem = Problem::new(StatusCode::BAD_REQUEST, "tenant_required", message);
            return Err(Box::new(problem.with_detail("claim", self.claim.as_str())));
        }
        Ok(Bearer {
            tenant: found.flatten(),
            principal: principal(&claims),
        })
    }

    /// The claims of the one valid token, or what is wrong in words that hold nothing of it.
    fn claims(&self, headers: &HeaderMap) -> Result<Map<String, Value>, &'static str> {
        let token = bearer(headers)?;
        let data = decode::<Map<String, Value>>(token, &self.key, &self.validation)
            .map_err(|error| reason(&error))?;
        // RFC 7515, 4.1.11: who does not know a critical header must refuse, and none is known here.
        match data.header.crit {
            Some(_) => Err("it has critical headers"),
            None => Ok(data.claims),
        }
    }
}

/// The token of the one Authorization header. Of two, the upstream might take the other.
fn bearer(headers: &HeaderMap) -> Result<&[u8], &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Err("there is none"),
        (Some(_), Some(_)) => return Err("there are two Authorization headers"),
        (Some(value), None) => value.as_bytes(),
    };
    match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => Ok(token.trim_ascii()),
        Some(_) | None => Err("Authorization is not Bearer"),
    }
}

/// The tenant at the end of the path, if a UUID is there.
fn tenant(claims: &Map<String, Value>, path: &[String]) -> Option<Tenant> {
    let (first, rest) = path.split_first()?;
    let found = rest
        .iter()
        .try_fold(claims.get(first)?, |within, name| within.get(name))?;
    let id = Uuid::try_parse(found.as_str()?).ok()?;
    Some(Tenant::from_uuid(id))
}

/// The issuer and its subject, hashed: a token that was refreshed stands for whom the old one did.
fn principal(claims: &Map<String, Value>) -> Option<Principal> {
    let subject = claims.get("sub")?.as_str().filter(|sub| !sub.is_empty())?;
    let issuer = match claims.get("iss") {
        None => "",
        Some(issuer) => issuer.as_str()?,
    };
    Some(Principal::of_parts(
        "jwt",
        &[issuer.as_bytes(), subject.as_bytes()],
    ))
}

fn reason(error: &jsonwebtoken::errors::Error) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::InvalidSignature => "its signature is not by the key",
        ErrorKind::InvalidAlgorithm => "its algorithm is not one of jwt_algorithms",
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "it is by another issuer",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::MissingRequiredClaim(_) => "exp, or a configured iss or aud, is missing",
        _ => "it is no JWT that can be read",
    }
}

#[cfg(test)]
mod tests;

//! One entry of the route table, checked value by value. A refusal names the route and the key.

use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use axum::http::{HeaderName, StatusCode};
use hapax::layer::{EXCLUDED, HoldStatuses, InvalidStatus, Route, is_never_stored};
use hapax_core::canonical::Selection;
use hapax_core::{OnLost, Policy};
use serde::Deserialize;
use toml::{Table, Value};

use super::super::{identity::Caller, spelling};
use crate::exit::Usage;

/// The largest body that a route may take or keep.
const BYTES_MAX: usize = 256 << 20;
const LIST_MAX: usize = 256;

/// One entry of `[[routes]]`. What is left out has the profile's default.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) pattern: String,
    required: Option<bool>,
    derive: Option<bool>,
    pub(super) ttl_seconds: Option<u64>,
    lease_seconds: Option<u64>,
    wait_ms: Option<u64>,
    on_lost: Option<OnLostWord>,
    mismatch_status: Option<u16>,
    exclude: Option<Vec<String>>,
    unordered: Option<Vec<String>>,
    redact: Option<Vec<String>>,
    #[serde(default)]
    principal_headers: Vec<String>,
    #[serde(default)]
    principal_cookie: String,
    #[serde(default)]
    principal: String,
    store_headers: Option<Vec<String>>,
    store_statuses: Option<Vec<StatusWord>>,
    on_status_hold: Option<Vec<StatusWord>>,
    max_body_bytes: Option<usize>,
    max_response_bytes: Option<usize>,
    subject: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnLostWord {
    Retry,
    Hold,
}

/// A status as a number or as a word such as `4xx` or `!404`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StatusWord {
    Number(u16),
    Word(String),
}

impl Entry {
    /// Reads the entry at `at`. A refusal names the route and the key.
    pub(super) fn read(at: usize, table: &Table) -> Result<Self> {
        let named = table.get("pattern").and_then(Value::as_str);
        let name = named.map_or(format!("routes[{at}]"), |pattern| {
            format!("route '{pattern}'")
        });
        serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|why| {
            let path = why.path().to_string();
            let message = why.inner().message().trim().to_owned();
            // An unknown key is named by the message.
            let is_said = message.starts_with("unknown field `") || path == "." || path.is_empty();
            let key = if is_said {
                String::new()
            } else {
                format!("{path}: ")
            };
            spelling::refused(&format!("{name}: {key}{message}"))
        })
    }

    pub(super) fn route(&self, usual: &Route) -> Result<Route> {
        let mut route = usual.clone();
        route.required = self.required.unwrap_or(route.required);
        route.derive = self.derive.unwrap_or(route.derive);
        route.policy = self.policy(route.policy)?;
        if let Some(status) = self.mismatch_status {
            route.mismatch_status = match status {
                409 => StatusCode::CONFLICT,
                422 => StatusCode::UNPROCESSABLE_ENTITY,
                _ => {
                    return Err(
                        self.refuse("mismatch_status", format!("is {status}; use 409 or 422"))
                    );
                }
            };
        }
        route.selection = self.selection()?;
        for path in self.list("redact", self.redact.as_ref())? {
            let path = path.parse();
            route
                .redact
                .push(path.map_err(|why| self.refuse("redact", format!("holds what is {why}")))?);
        }
        for name in self.list("store_headers", self.store_headers.as_ref())? {
            route.store_headers.push(self.header(name)?);
        }
        let caller = Caller {
            headers: &self.principal_headers,
            cookie: &self.principal_cookie,
            principal: &self.principal,
        };
        let identity = caller.identity();
        if let Some(identity) = identity.map_err(|(key, why)| self.refuse(key, why))? {
            route.identity = identity;
        }
        if let Some(statuses) = &self.store_statuses {
            route.store_statuses = self.statuses("store_statuses", statuses)?;
        }
        match self.on_status_hold.as_deref() {
            None => {}
            Some([]) => route.on_status_hold = HoldStatuses::default(),
            Some(statuses) => {
                route.on_status_hold = self.statuses("on_status_hold", statuses)?;
            }
        }
        let bytes = |key, bytes: Option<usize>, usual| self.bytes(key, bytes, usual);
        route.max_body_bytes = bytes("max_body_bytes", self.max_body_bytes, route.max_body_bytes)?;
        route.max_response_bytes = bytes(
            "max_response_bytes",
            self.max_response_bytes,
            route.max_response_bytes,
        )?;
        if let Some(pointer) = &self.subject {
            if !pointer.starts_with('/') {
                return Err(self.refuse(
                    "subject",
                    format!("is '{pointer}'; write a JSON pointer, such as /customer/id"),
                ));
            }
            route.subject = Some(pointer.clone());
        }
        Ok(route)
    }

    fn policy(&self, usual: Policy) -> Result<Policy> {
        let seconds = |key, given: Option<u64>, usual: Duration, most: Duration| match given {
            None => Ok(usual),
            Some(seconds) if (1..=most.as_secs()).contains(&seconds) => {
                Ok(Duration::from_secs(seconds))
            }
            Some(seconds) => {
                let most = most.as_secs();
                Err(self.refuse(key, format!("is {seconds}; use 1 to {most}")))
            }
        };
        let wait_ms_max = u64::try_from(Policy::WAIT_MAX.as_millis()).unwrap_or(u64::MAX);
        let wait = match self.wait_ms {
            None => usual.wait,
            Some(ms) if ms <= wait_ms_max => Duration::from_millis(ms),
            Some(ms) => {
                return Err(self.refuse("wait_ms", format!("is {ms}; use 0 to {wait_ms_max}")));
            }
        };
        Ok(Policy {
            ttl: seconds("ttl_seconds", self.ttl_seconds, usual.ttl, Policy::TTL_MAX)?,
            lease: seconds(
                "lease_seconds",
                self.lease_seconds,
                usual.lease,
                Policy::LEASE_MAX,
            )?,
            wait,
            on_lost: match self.on_lost {
                None => usual.on_lost,
                Some(OnLostWord::Retry) => OnLost::Retry,
                Some(OnLostWord::Hold) => OnLost::Hold,
            },
        })
    }

    fn selection(&self) -> Result<Selection> {
        let usual = EXCLUDED.map(str::to_owned);
        let exclude = match &self.exclude {
            None => usual.to_vec(),
            Some(names) => self.list("exclude", Some(names))?.to_vec(),
        };
        let unordered = self.list("unordered", self.unordered.as_ref())?;
        Selection::new(exclude, unordered)
            .map_err(|why| self.refuse("unordered", format!("holds what is {why}")))
    }

    fn header(&self, name: &str) -> Result<HeaderName> {
        let header: HeaderName = name.parse().map_err(|_| {
            self.refuse("store_headers", format!("holds '{name}', no header's name"))
        })?;
        if is_never_stored(&header) {
            return Err(self.refuse(
                "store_headers",
                format!("holds '{header}', which is never stored"),
            ));
        }
        Ok(header)
    }

    fn statuses<S>(&self, key: &str, words: &[StatusWord]) -> Result<S>
    where
        S: FromStr<Err = InvalidStatus>,
    {
        let words: Vec<String> = words
            .iter()
            .map(|word| match word {
                StatusWord::Number(number) => number.to_string(),
                StatusWord::Word(word) => word.clone(),
            })
            .collect();
        words
            .join(",")
            .parse()
            .map_err(|why| self.refuse(key, format!("holds what is wrong: {why}")))
    }

    fn bytes(&self, key: &str, given: Option<usize>, usual: usize) -> Result<usize> {
        match given {
            None => Ok(usual),
            Some(bytes) if (1..=BYTES_MAX).contains(&bytes) => Ok(bytes),
            Some(bytes) => Err(self.refuse(key, format!("is {bytes}; use 1 to {BYTES_MAX}"))),
        }
    }

    /// A list within its limit; empty where it is left out.
    fn list<'a>(&self, key: &str, list: Option<&'a Vec<String>>) -> Result<&'a [String]> {
        let list = list.map(Vec::as_slice).unwrap_or_default();
        if list.len() > LIST_MAX {
            return Err(self.refuse(
                key,
                format!("has {} entries; use at most {LIST_MAX}", list.len()),
            ));
        }
        if list.iter().any(String::is_empty) {
            return Err(self.refuse(key, "holds an empty text"));
        }
        Ok(list)
    }

    pub(super) fn refuse(&self, key: &str, why: impl std::fmt::Display) -> anyhow::Error {
        Usage::error(format!("route '{}': {key} {why}", self.pattern))
    }
}

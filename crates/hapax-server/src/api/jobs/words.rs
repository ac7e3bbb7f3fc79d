//! The words of jobs in a JSON body, checked where they stand, so that a refusal names the path.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::{By, Class, Fence, Job, JobId, JobKind, OpKey, State};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest rest that can be asked for: 30 days.
const REST_SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// Text that is checked by `T`'s own rule.
pub(in crate::api) struct Word<T>(pub(in crate::api) T);

/// A kind, an id or a state that a body names by its word.
pub(in crate::api) trait Named: Sized {
    /// What the word stands for, or why it stands for nothing.
    fn named(text: &str) -> Result<Self, impl Display>;
}

impl<'de, T: Named> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        T::named(&text).map(Self).map_err(D::Error::custom)
    }
}

impl Named for State {
    fn named(text: &str) -> Result<Self, impl Display> {
        Self::from_str(text)
    }
}

impl Named for Class {
    fn named(text: &str) -> Result<Self, impl Display> {
        Self::from_str(text)
    }
}

impl Named for JobKind {
    fn named(text: &str) -> Result<Self, impl Display> {
        Self::new(text)
    }
}

impl Named for JobId {
    fn named(text: &str) -> Result<Self, impl Display> {
        Self::new(text)
    }
}

impl Named for OpKey {
    fn named(text: &str) -> Result<Self, impl Display> {
        Self::new(text)
    }
}

/// A holder's name.
pub(in crate::api) struct Owner(pub(in crate::api) Arc<str>);

impl Named for Owner {
    fn named(text: &str) -> Result<Self, impl Display> {
        Job::check_owner(text).map(|()| Self(text.into()))
    }
}

/// Why something failed: a text, or an object that is kept as its JSON. The end is cut off where it is too long.
pub(in crate::api) struct Why(pub(in crate::api) Arc<str>);

impl<'de> Deserialize<'de> for Why {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(from)? {
            Value::String(text) => text,
            other @ (Value::Object(_) | Value::Array(_)) => other.to_string(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                return Err(D::Error::custom("is neither a text nor an object"));
            }
        };
        if text.contains('\0') {
            return Err(D::Error::custom(
                "holds a NUL character, which cannot be kept",
            ));
        }
        Ok(Self(text.into()))
    }
}

/// How long a lease lasts, in seconds; fractions count.
pub(in crate::api) struct Ttl(pub(in crate::api) Duration);

impl Default for Ttl {
    fn default() -> Self {
        Self(Duration::from_secs(120))
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (least, most) = Job::LEASES;
        let seconds = f64::deserialize(from)?;
        let span = Duration::try_from_secs_f64(seconds).ok();
        span.filter(|span| (least..=most).contains(span))
            .map(Self)
            .ok_or_else(|| {
                let (least, most) = (least.as_secs_f64(), most.as_secs());
                D::Error::custom(format!("must be from {least} to {most} seconds"))
            })
    }
}

/// How long a failed job rests at least, in seconds.
pub(in crate::api) struct Rest(pub(in crate::api) Duration);

impl<'de> Deserialize<'de> for Rest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(from)?;
        if !(0.0..=REST_SECONDS_MAX).contains(&seconds) {
            return Err(D::Error::custom(format!(
                "must be from 0 to {REST_SECONDS_MAX} seconds"
            )));
        }
        Duration::try_from_secs_f64(seconds)
            .map(Self)
            .map_err(D::Error::custom)
    }
}

/// The holder of a lease as bodies name it, who is a caller and not the program. Both may be left out where nobody holds
/// the job.
pub(in crate::api) fn fence(owner: Option<Word<Owner>>, epoch: Option<i64>) -> Fence {
    Fence {
        owner: owner.map(|Word(Owner(owner))| owner),
        epoch,
        by: By::Caller,
    }
}

/// What is meant where nothing is said of a retry.
pub(in crate::api) fn yes() -> bool {
    true
}

/// Any JSON that is there, `null` too.
pub(in crate::api) fn given<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_seconds_with_fractions_within_their_limits() {
        let ttl = |text| serde_json::from_str::<Ttl>(text).map(|ttl| ttl.0).ok();
        assert_eq!(ttl("0.25"), Some(Duration::from_millis(250)));
        assert_eq!(ttl("86400"), Some(Duration::from_secs(86_400)));
        for wrong in ["0", "-1", "86401", "1e300", "\"1\"", "null"] {
            assert_eq!(ttl(wrong), None, "{wrong}");
        }
        let rest = |text| serde_json::from_str::<Rest>(text).map(|rest| rest.0).ok();
        assert_eq!(rest("0"), Some(Duration::ZERO));
        assert_eq!(rest("2592001"), None);
    }
}

//! A time zone by its name in the IANA database. The data is in the program, so that every host agrees on it.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;

/// Where a person's days begin and end.
///
/// ```
/// use hapax_intake::intent::Zone;
///
/// let zone: Zone = "Europe/Berlin".parse()?;
/// assert_eq!(zone.to_string(), "Europe/Berlin");
/// assert_eq!(Zone::default().to_string(), "UTC");
/// assert!("Middle/Earth".parse::<Zone>().is_err());
/// # Ok::<(), hapax_intake::intent::zone::UnknownZone>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    pub(crate) const fn rules(&self) -> &TimeZone {
        &self.0
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for Zone {
    type Err = UnknownZone;

    fn from_str(name: &str) -> Result<Self, UnknownZone> {
        match TimeZone::get(name) {
            Ok(rules) if !rules.is_unknown() => Ok(Self(rules)),
            Ok(_) | Err(_) => Err(UnknownZone),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

/// No time zone has that name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("is not a name of the IANA time zone database, such as Europe/Berlin")]
pub struct UnknownZone;

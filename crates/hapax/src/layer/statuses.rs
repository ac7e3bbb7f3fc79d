//! Which statuses of an answer are final, so that it is recorded and replayed, and which leave the key in doubt.

use std::str::FromStr;

use http::StatusCode;

/// The statuses of a refused credential. They are never final: a stranger's refused try must not block the caller
/// whose key it is, and a caller with a new credential must get through.
const CREDENTIAL_REFUSED: [u16; 3] = [401, 403, 407];

/// A set of statuses. The usual one holds every 2xx, 3xx and 4xx but 408, 425 and 429, which say "try
/// again", as 5xx does.
///
/// No set holds 401, 403 or 407, whichever classes it is made of: they say that a credential was refused, and the next
/// one may be good.
///
/// ```
/// use hapax::layer::Statuses;
/// use http::StatusCode;
///
/// assert!(Statuses::default().holds(StatusCode::NOT_FOUND));
/// assert!(!Statuses::default().holds(StatusCode::SERVICE_UNAVAILABLE));
/// // `!` leaves one out, whatever the order.
/// let few: Statuses = "!404, 2xx, 4xx".parse()?;
/// assert!(few.holds(StatusCode::GONE) && !few.holds(StatusCode::NOT_FOUND));
/// assert!("2xx, 6xx".parse::<Statuses>().is_err());
/// assert!(!Statuses::default().holds(StatusCode::UNAUTHORIZED));
/// assert!("2xx, 401".parse::<Statuses>().is_err(), "never final, so it cannot be listed");
/// # Ok::<(), hapax::layer::InvalidStatus>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statuses {
    held: Vec<Range>,
    left_out: Vec<Range>,
}

/// From the first status to the last, both within.
type Range = (u16, u16);

/// Statuses that do not say whether the request was carried out, such as a 502 or 504 of a gateway. The usual set is empty.
/// It takes statuses from 400 on, but for 401, 403 and 407.
///
/// ```
/// use hapax::layer::HoldStatuses;
/// use http::StatusCode;
///
/// let gateway: HoldStatuses = "5xx, !503".parse()?;
/// assert!(gateway.holds(StatusCode::BAD_GATEWAY) && !gateway.holds(StatusCode::SERVICE_UNAVAILABLE));
/// assert!(!HoldStatuses::default().holds(StatusCode::BAD_GATEWAY));
/// assert!("2xx".parse::<HoldStatuses>().is_err(), "an answer that is no failure leaves no doubt");
/// assert!("401".parse::<HoldStatuses>().is_err(), "a refused credential leaves no doubt either");
/// # Ok::<(), hapax::layer::InvalidStatus>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HoldStatuses {
    statuses: Statuses,
    words: Vec<String>,
}

/// A word that is not a status, such as `404`, nor a class of them, such as `4xx`, or one that the set cannot hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidStatus {
    word: String,
    /// Whether it was meant to leave the key in doubt.
    holds: bool,
}

impl std::fmt::Display for InvalidStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { word, holds } = self;
        match (range(word), holds) {
            (Some(range), false) if is_credential_refused(range) => write!(
                f,
                "'{word}' is never final, since the next credential may be good; leave it out"
            ),
            (Some(range), true) if is_credential_refused(range) => write!(
                f,
                "'{word}' leaves no doubt: the request was not carried out, and the next credential may be good; leave it out"
            ),
            (Some(_), true) => write!(
                f,
                "'{word}' leaves no doubt: the request was answered; write statuses from 400 on, such as 502 and 504"
            ),
            (Some(_), false) | (None, _) => write!(
                f,
                "'{word}' is no status; write one from 200 to 599, a class such as 4xx, or either after a '!'"
            ),
        }
    }
}

impl std::error::Error for InvalidStatus {}

impl Statuses {
    /// Whether `status` is in the set.
    #[must_use]
    pub fn holds(&self, status: StatusCode) -> bool {
        let within = |ranges: &[Range]| {
            ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&status.as_u16()))
        };
        let is_refused = CREDENTIAL_REFUSED.contains(&status.as_u16());
        !is_refused && within(&self.held) && !within(&self.left_out)
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self {
            held: vec![(200, 499)],
            left_out: vec![(408, 408), (425, 425), (429, 429)],
        }
    }
}

impl FromStr for Statuses {
    type Err = InvalidStatus;

    fn from_str(text: &str) -> Result<Self, InvalidStatus> {
        let mut statuses = Self {
            held: Vec::new(),
            left_out: Vec::new(),
        };
        for word in text.split(',').map(str::trim) {
            let (list, bare, is_held) = match word.strip_prefix('!') {
                Some(bare) => (&mut statuses.left_out, bare, false),
                None => (&mut statuses.held, word, true),
            };
            let range = range(bare).filter(|range| !(is_held && is_credential_refused(*range)));
            list.push(range.ok_or_else(|| InvalidStatus {
                word: bare.to_owned(),
                holds: false,
            })?);
        }
        Ok(statuses)
    }
}

impl HoldStatuses {
    /// Whether an answer with `status` leaves its key in doubt.
    #[must_use]
    pub fn holds(&self, status: StatusCode) -> bool {
        self.statuses.holds(status)
    }

    /// The words it was made of; none in the usual set.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

/// None.
impl Default for HoldStatuses {
    fn default() -> Self {
        Self {
            statuses: Statuses {
                held: Vec::new(),
                left_out: Vec::new(),
            },
            words: Vec::new(),
        }
    }
}

impl FromStr for HoldStatuses {
    type Err = InvalidStatus;

    fn from_str(text: &str) -> Result<Self, InvalidStatus> {
        let statuses: Statuses = text.parse().map_err(|error| InvalidStatus {
            holds: true,
            ..error
        })?;
        let mut words = text.split(',').map(str::trim);
        let answered = words.find(|word| range(word).is_some_and(|(first, _)| first < 400));
        match answered {
            None => Ok(Self {
                statuses,
                words: text.split(',').map(|word| word.trim().to_owned()).collect(),
            }),
            Some(word) => Err(InvalidStatus {
                word: word.to_owned(),
                holds: true,
            }),
        }
    }
}

/// Whether the range is one of the statuses that are never final.
fn is_credential_refused((first, last): Range) -> bool {
    first == last && CREDENTIAL_REFUSED.contains(&first)
}

fn range(word: &str) -> Option<Range> {
    if let Some(class) = word.strip_suffix("xx") {
        let class: u16 = class.parse().ok()?;
        return (2..=5)
            .contains(&class)
            .then_some((class * 100, class * 100 + 99));
    }
    let status: u16 = word.parse().ok()?;
    (200..=599).contains(&status).then_some((status, status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, status: u16) -> bool {
        let statuses: Statuses = text.parse().unwrap();
        statuses.holds(StatusCode::from_u16(status).unwrap())
    }

    #[test]
    fn a_refused_credential_is_in_no_set() {
        for status in [401, 403, 407] {
            for text in ["4xx", "2xx, 3xx, 4xx, 5xx", "4xx, !404", "200, 4xx, !401"] {
                assert!(!holds(text, status), "{text} {status}");
            }
            assert!(!Statuses::default().holds(StatusCode::from_u16(status).unwrap()));
            let listed = format!("2xx, {status}");
            let why = listed.parse::<Statuses>().unwrap_err().to_string();
            assert!(
                why.contains(&status.to_string()) && why.contains("never final"),
                "{why}"
            );
        }
        for status in [400, 402, 404, 405, 406, 409, 410, 422] {
            assert!(holds("4xx", status), "{status}");
        }
    }

    #[test]
    fn only_a_failure_that_says_nothing_of_the_effect_leaves_a_doubt() {
        let hold: HoldStatuses = "502, 504, 4xx".parse().unwrap();
        for (status, held) in [(502, true), (504, true), (503, false), (409, true)] {
            assert_eq!(hold.holds(StatusCode::from_u16(status).unwrap()), held);
        }
        for status in [401, 403, 407] {
            assert!(!hold.holds(StatusCode::from_u16(status).unwrap()));
        }
        for (text, why) in [
            ("401", "next credential"),
            ("502, 403", "next credential"),
            ("200", "was answered"),
            ("2xx", "was answered"),
            ("5xx, 3xx", "was answered"),
            ("99", "no status"),
        ] {
            let refused = text.parse::<HoldStatuses>().unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn leaving_one_out_that_no_set_holds_changes_nothing() {
        assert!(holds("2xx, 4xx, !401, !403", 404));
        assert!(holds("2xx, !407", 201));
    }
}

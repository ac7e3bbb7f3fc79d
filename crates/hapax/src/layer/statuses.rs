//! Which statuses of an answer are final, so that it is recorded and replayed.

use std::str::FromStr;

use http::StatusCode;

/// A set of statuses. The usual one holds every 2xx, 3xx and 4xx but 408, 425 and 429, which say "try
/// again", as 5xx does.
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
/// # Ok::<(), hapax::layer::InvalidStatus>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statuses {
    held: Vec<Range>,
    left_out: Vec<Range>,
}

/// From the first status to the last, both within.
type Range = (u16, u16);

/// What is not a status, such as `404`, nor a class of them, such as `4xx`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidStatus(String);

impl std::fmt::Display for InvalidStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "'{}' is no status; write one from 200 to 599, a class such as 4xx, or either after a '!'",
            self.0
        )
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
        within(&self.held) && !within(&self.left_out)
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
            let (list, word) = match word.strip_prefix('!') {
                Some(word) => (&mut statuses.left_out, word),
                None => (&mut statuses.held, word),
            };
            list.push(range(word).ok_or_else(|| InvalidStatus(word.to_owned()))?);
        }
        Ok(statuses)
    }
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

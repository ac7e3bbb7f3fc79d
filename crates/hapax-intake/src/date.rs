//! When a mail was sent: the moment, and the day by the clocks of America/Chicago. The day is part of a key, so it
//! guesses nothing.

use hapax_core::Time;
use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// The longest text that is read as a date, in bytes. No date is longer, comments included.
const TEXT_BYTES_MAX: usize = 1_000;

const ZONE: &str = "America/Chicago";

/// The day of a date, as `YYYY-MM-DD`; `None` if the text is no date.
///
/// A moment by RFC 3339 or RFC 5322 counts by the day in America/Chicago; a date without a time is that day. Of RFC
/// 5322 the old forms are read too: years of two digits, zones by name, comments, no day of the week or a wrong one.
/// A zone by a name that the standard does not know counts as UTC, as the standard asks. A time without a zone is no
/// moment, and so no day.
///
/// ```
/// use hapax_intake::date::day_bucket;
///
/// assert_eq!(day_bucket("2026-02-17T05:59:59Z").as_deref(), Some("2026-02-16"));
/// assert_eq!(day_bucket("Tue, 17 Feb 2026 00:00:00 -0600 (CST)").as_deref(), Some("2026-02-17"));
/// assert_eq!(day_bucket("2026-02-17").as_deref(), Some("2026-02-17"));
/// assert_eq!(day_bucket("yesterday"), None);
/// assert_eq!(day_bucket("2026-02-17T05:59:59"), None);
/// ```
#[must_use]
pub fn day_bucket(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let day = match bare_date(text) {
        Some(day) => day,
        None => day_in_zone(moment(text)?)?,
    };
    (0..=9999)
        .contains(&day.year())
        .then(|| day.strftime("%Y-%m-%d").to_string())
}

/// The moment that a text names by RFC 3339 or RFC 5322, to the millisecond; `None` if it names none.
///
/// ```
/// use hapax_core::Time;
/// use hapax_intake::date::time;
///
/// assert_eq!(time("1970-01-01T01:00:00.007+01:00"), Some(Time::from_ms(7)));
/// assert_eq!(time("1970-01-01"), None);
/// ```
#[must_use]
pub fn time(text: &str) -> Option<Time> {
    moment(text).map(|moment| Time::from_ms(moment.as_millisecond()))
}

/// The moment that a text names by RFC 3339 or RFC 5322.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    rfc3339(text).or_else(|| rfc5322(text))
}

fn day_in_zone(moment: Timestamp) -> Option<Date> {
    // The zone's rules are in the program, so this holds on every host.
    let zone = TimeZone::get(ZONE).ok()?;
    Some(zone.to_datetime(moment).date())
}

fn bare_date(text: &str) -> Option<Date> {
    let digits = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    (text.len() == 10 && text.bytes().enumerate().all(digits))
        .then(|| text.parse().ok())
        .flatten()
}

/// `YYYY-MM-DDThh:mm:ss[.fraction](Z|±hh:mm)`; the `T` may be a space, and both letters may be small.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let (date, time) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
        return None;
    }
    let date = bare_date(date)?;
    let (clock, offset) = if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        (clock, Offset::UTC)
    } else {
        let (clock, zone) = time.split_at_checked(time.len().checked_sub(6)?)?;
        let has_colon = zone.as_bytes()[3] == b':';
        let offset = offset(&zone.replacen(':', "", 1)).filter(|_| has_colon)?;
        (clock, offset)
    };
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 8 || whole.matches(':').count() != 2 || !is_digits(fraction) {
        return None;
    }
    // Nine digits are nanoseconds; what is smaller is cut off.
    let nanoseconds: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    at(date, whole, offset)?
        .checked_add(SignedDuration::from_nanos(nanoseconds))
        .ok()
}

/// `[day ","] 17 Feb 2026 14:00[:43] zone`, comments and folds anywhere between.
fn rfc5322(text: &str) -> Option<Timestamp> {
    let plain = without_comments(text)?;
    let mut words = plain
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty())
        .peekable();
    words.next_if(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let day: i8 = number(words.next()?, 2)?;
    let month = month(words.next()?)?;
    let year = year(words.next()?)?;
    let clock = words.next()?;
    let offset = zone(words.next()?)?;
    let date = Date::new(year, month, day).ok()?;
    words
        .next()
        .is_none()
        .then(|| at(date, clock, offset))
        .flatten()
}

/// The text with each comment, nested ones included, as a space. `None` if one does not end.
fn without_comments(text: &str) -> Option<String> {
    let (mut plain, mut depth, mut escaped) = (String::with_capacity(text.len()), 0_usize, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if depth > 0 => escaped = true,
            '(' => depth += 1,
            ')' if depth > 0 => {
                depth -= 1;
                plain.push(' ');
            }
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    (depth == 0).then_some(plain)
}

fn at(date: Date, clock: &str, offset: Offset) -> Option<Timestamp> {
    let mut parts = clock.split(':');
    let hour: i8 = number(parts.next()?, 2)?;
    let minute: i8 = number(parts.next()?, 2)?;
    let second: i8 = parts.next().map_or(Some(0), |text| number(text, 2))?;
    if parts.next().is_some() {
        return None;
    }
    // A leap second belongs to the minute that it ends.
    let second = if second == 60 { 59 } else { second };
    let local = DateTime::new(
        date.year(),
        date.month(),
        date.day(),
        hour,
        minute,
        second,
        0,
    );
    offset.to_timestamp(local.ok()?).ok()
}

fn year(text: &str) -> Option<i16> {
    let year: i16 = number(text, 4)?;
    match text.len() {
        2 if year < 50 => Some(year + 2000),
        2 | 3 => Some(year + 1900),
        4 => Some(year),
        _ => None,
    }
}

fn month(text: &str) -> Option<i8> {
    const NAMES: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let short = text.get(..3)?.to_ascii_lowercase();
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    (1..)
        .zip(NAMES)
        .find(|(_, name)| is_word && *name == short)
        .map(|(number, _)| number)
}

fn zone(text: &str) -> Option<Offset> {
    if text.starts_with(['+', '-']) {
        return offset(text);
    }
    let hours = match text.to_ascii_uppercase().as_str() {
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        other if other.bytes().all(|byte| byte.is_ascii_alphabetic()) => 0,
        _ => return None,
    };
    Some(Offset::constant(hours))
}

/// `±hhmm`.
fn offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+')?),
    };
    let hhmm: i32 = number(digits, 4).filter(|_| digits.len() == 4)?;
    let (hours, minutes) = (hhmm / 100, hhmm % 100);
    if hours > 23 || minutes > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()
}

/// One to `digits_max` digits.
fn number<N: std::str::FromStr>(text: &str, digits_max: usize) -> Option<N> {
    let fits = (1..=digits_max).contains(&text.len());
    (fits && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

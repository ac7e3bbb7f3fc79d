//! When something is due: the words people use, read in their time zone. What cannot be read is not guessed.

use hapax_core::Time;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::{Timestamp, ToSpan};

use super::zone::Zone;

/// The furthest day that `in N days` reaches.
const DAYS_MAX: i64 = 3_650;

/// A due date that was understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Due {
    /// A day (`2026-11-17`), or a moment with its offset from UTC (`2026-11-17T09:00:00+01:00`).
    On(String),
    /// No due date, said in so many words.
    Never,
}

/// A text that names no due date.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unread {
    /// It cannot be understood.
    Unclear,
    /// It names a time of day that the zone's clocks show twice, or skip, that day: these are the two moments.
    Twofold([String; 2]),
}

/// Reads a due date as of `now`, in the days of `zone`.
///
/// | text | means |
/// |---|---|
/// | `today`, `tomorrow`, `day after tomorrow` | that day in the zone |
/// | `friday`, `fri`, `next friday` | the next such day after today; of two readings the earlier does less harm |
/// | `next week` | the Monday of next week; weeks begin on Monday |
/// | `friday next week`, `next week friday` | that day of next week |
/// | `in 3 days`, `in a week`, `in 2 weeks` | so many days from today |
/// | `2026-11-17` | that day |
/// | `2026-11-17T09:00:00+01:00`, `…Z` | that moment, its offset kept |
/// | `2026-11-17T09:00` | that time in the zone |
/// | `none`, `never`, `no due date` | no due date |
///
/// Capitals and blanks do not count, and `on`, `by` or `due` may come first. A day that the zone skipped altogether
/// is the day after it.
///
/// ```
/// use hapax_core::Time;
/// use hapax_intake::intent::{Due, Zone, due};
///
/// let now = Time::from_ms(1_794_787_200_000); // Monday, 2026-11-16, 00:00 UTC
/// let utc = Zone::default();
/// assert_eq!(due::read("Friday", &utc, now), Ok(Due::On("2026-11-20".into())));
/// assert_eq!(due::read("today", &"America/New_York".parse()?, now), Ok(Due::On("2026-11-15".into())));
/// assert_eq!(due::read("soonish", &utc, now), Err(due::Unread::Unclear));
/// # Ok::<(), hapax_intake::intent::zone::UnknownZone>(())
/// ```
///
/// # Errors
/// [`Unread`] when the text is none of these.
pub fn read(text: &str, zone: &Zone, now: Time) -> Result<Due, Unread> {
    let lower = text.to_lowercase();
    let mut words: Vec<&str> = lower.split_whitespace().collect();
    if words.len() > 1 && ["on", "by", "due"].contains(&words[0]) {
        words.remove(0);
    }
    match words.as_slice() {
        ["none" | "never"] | ["no", "due", "date"] => return Ok(Due::Never),
        [first, ..] if first.starts_with(|c: char| c.is_ascii_digit()) => {
            return iso(&words.join(" "), zone);
        }
        _ => {}
    }
    let today = today(zone, now).ok_or(Unread::Unclear)?;
    let days = relative(&words, today.weekday()).ok_or(Unread::Unclear)?;
    day_after(today, days, zone)
        .map(|day| Due::On(day.to_string()))
        .ok_or(Unread::Unclear)
}

/// The days that a question offers: today, tomorrow and the Monday of next week.
pub(super) fn offers(zone: &Zone, now: Time) -> Vec<(&'static str, &'static str, String)> {
    [
        ("today", "today"),
        ("tomorrow", "tomorrow"),
        ("next_week", "next week"),
    ]
    .into_iter()
    .filter_map(|(id, words)| match read(words, zone, now) {
        Ok(Due::On(day)) => Some((id, words, day)),
        Ok(Due::Never) | Err(_) => None,
    })
    .collect()
}

fn today(zone: &Zone, now: Time) -> Option<Date> {
    let moment = Timestamp::from_millisecond(now.as_ms()).ok()?;
    Some(zone.rules().to_datetime(moment).date())
}

/// How many days after a day of this name the words lead.
fn relative(words: &[&str], today: Weekday) -> Option<i64> {
    let to_monday = 7 - i64::from(today.to_monday_zero_offset());
    match words {
        ["today"] => Some(0),
        ["tomorrow"] => Some(1),
        ["day", "after", "tomorrow"] => Some(2),
        ["next", "week"] => Some(to_monday),
        ["next", "week", day] | [day, "next", "week"] => {
            Some(to_monday + i64::from(weekday(day)?.to_monday_zero_offset()))
        }
        [day] | ["next", day] => {
            let ahead = i64::from(weekday(day)?.since(today));
            Some(if ahead == 0 { 7 } else { ahead })
        }
        ["in", count, "day" | "days"] => number(count),
        ["in", count, "week" | "weeks"] => number(count)?.checked_mul(7),
        _ => None,
    }
    .filter(|days| *days <= DAYS_MAX)
}

fn number(word: &str) -> Option<i64> {
    match word {
        "a" | "one" => Some(1),
        digits if digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok()
        }
        _ => None,
    }
}

fn weekday(word: &str) -> Option<Weekday> {
    match word {
        "monday" | "mon" => Some(Weekday::Monday),
        "tuesday" | "tue" | "tues" => Some(Weekday::Tuesday),
        "wednesday" | "wed" => Some(Weekday::Wednesday),
        "thursday" | "thu" | "thur" | "thurs" => Some(Weekday::Thursday),
        "friday" | "fri" => Some(Weekday::Friday),
        "saturday" | "sat" => Some(Weekday::Saturday),
        "sunday" | "sun" => Some(Weekday::Sunday),
        _ => None,
    }
}

fn day_after(today: Date, days: i64, zone: &Zone) -> Option<Date> {
    let day = today.checked_add(days.days()).ok()?;
    // A zone that crossed the date line has no such day; its midnight is then the next day's.
    let midnight = zone.rules().to_ambiguous_zoned(day.at(0, 0, 0, 0));
    Some(midnight.compatible().ok()?.date())
}

fn iso(text: &str, zone: &Zone) -> Result<Due, Unread> {
    let shape = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        10 => byte == b't' || byte == b' ',
        0..10 => byte.is_ascii_digit(),
        _ => byte.is_ascii_digit() || b":.,+-z".contains(&byte),
    };
    if text.len() < 10 || !text.bytes().enumerate().all(shape) {
        return Err(Unread::Unclear);
    }
    let pieces = Pieces::parse(text).map_err(|_| Unread::Unclear)?;
    let Some(time) = pieces.time() else {
        return Ok(Due::On(pieces.date().to_string()));
    };
    let moment = pieces.date().to_datetime(time);
    match pieces.offset() {
        Some(offset) => fixed(moment, offset).ok_or(Unread::Unclear),
        None => local(moment, zone),
    }
}

fn fixed(moment: DateTime, offset: PiecesOffset) -> Option<Due> {
    let at = offset.to_numeric_offset();
    let timestamp = at.to_timestamp(moment).ok()?;
    Some(Due::On(match offset {
        PiecesOffset::Zulu => timestamp.to_string(),
        _ => timestamp.display_with_offset(at).to_string(),
    }))
}

fn local(moment: DateTime, zone: &Zone) -> Result<Due, Unread> {
    let shown = |timestamp: Timestamp| {
        let offset = zone.rules().to_offset(timestamp);
        timestamp.display_with_offset(offset).to_string()
    };
    let ambiguous = zone.rules().to_ambiguous_timestamp(moment);
    let either = [ambiguous.earlier(), ambiguous.later()];
    match either.map(|reading| reading.map(shown)) {
        [Ok(earlier), Ok(later)] if ambiguous.is_ambiguous() => {
            Err(Unread::Twofold([earlier, later]))
        }
        [Ok(one), Ok(_)] => Ok(Due::On(one)),
        [Err(_), _] | [_, Err(_)] => Err(Unread::Unclear),
    }
}

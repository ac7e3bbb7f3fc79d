//! What both databases agree on about entries: their limits, the words of a search, the row of the test mode, and the
//! form of a state that was replaced. It knows no SQL.

use std::collections::BTreeMap;

use hapax_core::entry::{Column, Fields, Incoming, Row, Search};
use hapax_core::{Error, Kind, Tenant, Time};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

/// The longest text that is searched for, in bytes.
pub(crate) const SEARCH_BYTES_MAX: usize = 8 * 1024;
/// The most words that are searched for.
pub(crate) const SEARCH_WORDS_MAX: usize = 100;

/// The key of the default tenant's test mode in the runtime config.
const MODE: &str = "is_test_mode";

/// Refuses more items than one batch takes.
pub(crate) fn at_most(count: usize) -> Result<(), Error> {
    let most = Incoming::BATCH_MAX;
    if count <= most {
        return Ok(());
    }
    let why = format!("{count} entries in one call; at most {most} are taken");
    Err(Error::new(Kind::Limit, "writing entries").because(why))
}

/// How many rows an answer has, as a database counts.
pub(crate) fn page(limit: usize) -> i64 {
    i64::try_from(limit.min(Search::LIMIT_MAX)).unwrap_or(i64::MAX)
}

/// The words of a search, split at white space. What has neither a letter nor a digit is no word, so a database's own
/// tokeniser never gets an empty one; a word may still hold any other character and must be quoted.
///
/// # Errors
/// [`Kind::Limit`] if it is longer than [`SEARCH_BYTES_MAX`] or has more than [`SEARCH_WORDS_MAX`] words.
pub(crate) fn words(text: &str) -> Result<Vec<&str>, Error> {
    let refused = |why: String| Error::new(Kind::Limit, "searching entries").because(why);
    if text.len() > SEARCH_BYTES_MAX {
        let why = format!("the search is longer than {SEARCH_BYTES_MAX} bytes");
        return Err(refused(why));
    }
    let words: Vec<&str> = text
        .split(|at: char| at.is_whitespace() || at.is_control())
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .collect();
    if words.len() > SEARCH_WORDS_MAX {
        let why = format!("the search has more than {SEARCH_WORDS_MAX} words");
        return Err(refused(why));
    }
    Ok(words)
}

/// A text as an index of words gets it, and the words of a search with it: in small letters, with spaces for whatever is
/// neither a letter nor a digit, and no longer than what is searched.
pub(crate) fn spoken(text: &str) -> String {
    let plain = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            byte.to_ascii_lowercase()
        } else {
            b' '
        }
    };
    let (mut rest, mut left) = (text, Search::SEARCHED_CHARS);
    let mut spoken = Vec::with_capacity(text.len().min(left));
    while left > 0 && !rest.is_empty() {
        // Most of a text is ASCII, and goes over in stretches.
        let reach = &rest.as_bytes()[..rest.len().min(left)];
        let end = reach.iter().position(|byte| !byte.is_ascii());
        let (ascii, after) = rest.split_at(end.unwrap_or(reach.len()));
        spoken.extend(ascii.bytes().map(plain));
        left -= ascii.len();
        rest = after;
        if let Some(at) = rest.chars().next().filter(|at| left > 0 && !at.is_ascii()) {
            for at in at.to_lowercase() {
                let at = if at.is_alphanumeric() { at } else { ' ' };
                spoken.extend_from_slice(at.encode_utf8(&mut [0; 4]).as_bytes());
            }
            left -= 1;
            rest = &rest[at.len_utf8()..];
        }
    }
    String::from_utf8(spoken).expect("it is made of ASCII and of whole characters")
}

/// The key of a tenant's test mode in the runtime config.
pub(crate) fn mode_key(tenant: Tenant) -> String {
    if tenant == Tenant::DEFAULT {
        return MODE.to_owned();
    }
    format!("{MODE}/{}", tenant.as_uuid())
}

/// Whether a value of the runtime config, which a person may have written, says that the test mode is on. None is off.
///
/// # Errors
/// [`Kind::Corrupt`] if it says neither.
pub(crate) fn is_on(value: Option<&str>) -> Result<bool, Error> {
    let Some(value) = value else {
        return Ok(false);
    };
    let bare = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap_or(value);
    match bare.to_ascii_lowercase().as_str() {
        "true" | "t" | "on" | "yes" | "1" => Ok(true),
        "false" | "f" | "off" | "no" | "0" => Ok(false),
        _ => {
            let why = "is_test_mode in runtime_config is neither true nor false";
            Err(Error::new(Kind::Corrupt, "reading the test mode").because(why))
        }
    }
}

/// The value that says whether the test mode is on.
pub(crate) const fn mode_value(is_on: bool) -> &'static str {
    if is_on { "true" } else { "false" }
}

/// A state of a row in the form in which replaced ones are kept: every column by its name, times in milliseconds.
#[cfg(any(feature = "postgres", test))]
pub(crate) fn state(row: &Row) -> Value {
    let mut state = row.fields.clone().into_json();
    for (column, value) in given(row) {
        state.insert(column.as_str().to_owned(), value);
    }
    Value::Object(state)
}

/// The same as JSON text, made without a copy of what the row says.
pub(crate) fn state_text(row: &Row) -> Result<String, Error> {
    let given = given(row);
    let given = given.iter().map(|(column, value)| (*column, value));
    let members: BTreeMap<&str, &Value> = row
        .fields
        .iter()
        .chain(given)
        .map(|(column, value)| (column.as_str(), value))
        .collect();
    serde_json::to_string(&members)
        .map_err(|error| Error::new(Kind::Corrupt, "keeping a state").caused_by(error))
}

/// What the store gives a row.
fn given(row: &Row) -> [(Column, Value); 5] {
    [
        (Column::EntryId, row.entry_id.into()),
        (Column::Id, row.id.to_string().into()),
        (Column::CreatedAt, row.created_at.as_ms().into()),
        (Column::UpdatedAt, row.updated_at.as_ms().into()),
        (Column::Revision, row.revision.into()),
    ]
}

/// The row behind the text of a [`state`]. Members that are no column any more are left out.
///
/// # Errors
/// [`Kind::Corrupt`] if something that the store gives is missing.
pub(crate) fn of_state(text: &str) -> Result<Row, Error> {
    // Member by member: a state is one level deeper than the deepest metadata, and a reader of JSON counts levels.
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(text).map_err(|_| unreadable())?;
    let mut state = Map::new();
    for (name, raw) in members {
        let value = serde_json::from_str(raw.get()).map_err(|_| unreadable())?;
        state.insert(name, value);
    }
    let whole = |state: &Map<String, Value>, column: Column| {
        let value = state.get(column.as_str()).and_then(Value::as_i64);
        value.ok_or_else(unreadable)
    };
    let id = state.get(Column::Id.as_str()).and_then(Value::as_str);
    let id = id.and_then(|id| Uuid::parse_str(id).ok());
    let (entry_id, revision) = (
        whole(&state, Column::EntryId)?,
        whole(&state, Column::Revision)?,
    );
    let (created_at, updated_at) = (
        whole(&state, Column::CreatedAt)?,
        whole(&state, Column::UpdatedAt)?,
    );
    let fields: Fields = Column::ALL
        .iter()
        .filter(|column| !column.is_given())
        .filter_map(|column| Some((*column, state.remove(column.as_str())?)))
        .filter(|(_, value)| !value.is_null())
        .collect();
    Ok(Row {
        entry_id,
        id: id.ok_or_else(unreadable)?,
        created_at: Time::from_ms(created_at),
        updated_at: Time::from_ms(updated_at),
        revision: u32::try_from(revision).map_err(|_| unreadable())?,
        fields,
    })
}

fn unreadable() -> Error {
    let why = "a replaced state of the entry cannot be read";
    Error::new(Kind::Corrupt, "reading an entry's revisions").because(why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_has_a_letter_or_a_digit() {
        let found = words("  Ключ \"AND\" -- ** 🙂 a🙂 \u{0}x:y ").expect("it is short");
        assert_eq!(found, ["Ключ", "\"AND\"", "a🙂", "x:y"]);
        assert!(words("* - \u{0}").expect("it is short").is_empty());
    }

    #[test]
    fn words_are_spoken_in_small_letters_with_spaces_between_them() {
        assert_eq!(spoken("🙂ЧАЙ🙂, \"Tea\"-x_y1"), " чай    tea  x y1");
        let long = "ж".repeat(Search::SEARCHED_CHARS + 1);
        assert_eq!(spoken(&long).chars().count(), Search::SEARCHED_CHARS);
    }

    #[test]
    fn a_search_over_its_limits_is_refused() {
        let kind = |text: &str| words(text).map(drop).map_err(|error| error.kind());
        assert_eq!(kind(&"a ".repeat(SEARCH_WORDS_MAX + 1)), Err(Kind::Limit));
        assert_eq!(kind(&"a".repeat(SEARCH_BYTES_MAX + 1)), Err(Kind::Limit));
        assert!(kind(&"a ".repeat(SEARCH_WORDS_MAX)).is_ok());
    }

    #[test]
    fn a_mode_is_read_as_people_write_it() {
        for (text, is) in [
            ("true", true),
            ("\"TRUE\"", true),
            ("On", true),
            ("1", true),
        ] {
            assert_eq!(is_on(Some(text)).ok(), Some(is), "{text}");
        }
        for text in ["false", "\"f\"", "no", "OFF", "0"] {
            assert_eq!(is_on(Some(text)).ok(), Some(false), "{text}");
        }
        assert_eq!(is_on(None).ok(), Some(false));
        for text in ["", "\"", "maybe", "\"true", " true"] {
            assert!(is_on(Some(text)).is_err(), "{text:?}");
        }
        for is in [true, false] {
            assert_eq!(is_on(Some(mode_value(is))).ok(), Some(is));
        }
    }

    #[test]
    fn a_state_comes_back_as_it_was() {
        let mut row = Row::new(7, Uuid::from_u128(9), Time::from_ms(-1), Fields::new());
        row.fields.put(Column::Title, "a \"quoted\" title");
        row.fields.put(Column::LinkRatio, 0.1);
        row.fields.put(Column::Metadata, json!({"a": {"b": null}}));
        row.revision = 3;
        let read = of_state(&state_text(&row).unwrap());
        assert_eq!(read.ok(), Some(row));
        assert!(of_state(r#"{"entry_id": 1}"#).is_err());
    }
}

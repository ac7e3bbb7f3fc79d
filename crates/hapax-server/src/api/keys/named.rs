//! The key that is named whole in a list: it comes first, and the cursor says where it was looked for.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use futures_util::{StreamExt, TryStreamExt, stream};
use hapax_core::{Error, Key, Ledger, Record, RecordId, Scan, Scope, Space, Time};

use super::{Item, Page, cursor, exists, shown_page};

/// In how many spaces it is looked for at the same time.
const LOOKUPS_AT_ONCE: usize = 8;

/// The records whose key is just what the keys of a list begin with. They are found by their ids, not looked for, so they
/// may be of any age. They are on the first page and on no other.
pub(super) struct Named {
    /// In which spaces was looked, up to the last of them.
    pub(super) spaces: Vec<Space>,
    items: Vec<Item>,
}

impl Named {
    /// Looks for no more than a page holds.
    pub(super) async fn find(
        ledger: &dyn Ledger,
        scan: &Scan,
        key: &Key,
        spaces: Vec<Space>,
        now: Time,
    ) -> Result<Self, Error> {
        let tenant = scan.tenant;
        let mut found = stream::iter(spaces)
            .map(async |space| {
                let scope = Scope { tenant, space };
                let record = ledger.find(tenant, RecordId::of(&scope, key)).await?;
                Ok::<_, Error>((scope.space, record))
            })
            .buffered(LOOKUPS_AT_ONCE);
        let mut named = Self {
            spaces: Vec::new(),
            items: Vec::new(),
        };
        while named.items.len() < scan.limit
            && let Some((space, record)) = found.try_next().await?
        {
            named.spaces.push(space);
            let is_wanted = |record: &Record| {
                exists(record) && scan.state.is_none_or(|state| state == record.word(now))
            };
            let record = record.filter(is_wanted);
            named
                .items
                .extend(record.map(|record| Item::of(&record, now)));
        }
        Ok(named)
    }

    /// Those that were on the first page.
    pub(super) fn earlier(mut spaces: Vec<Space>, last: Option<&Space>) -> Self {
        let end = spaces.iter().position(|space| Some(space) == last);
        spaces.truncate(end.map_or(0, |end| end + 1));
        Self {
            spaces,
            items: Vec::new(),
        }
    }

    /// The page with these before all others; what has no room then is on the next one.
    pub(super) fn before(self, mut page: hapax_core::Page, limit: usize, now: Time) -> Page {
        let room = limit.saturating_sub(self.items.len());
        if page.records.len() > room {
            page.records.truncate(room);
            let before_all = (
                Time::from_ms(i64::MAX),
                RecordId::from_uuid(uuid::Uuid::max()),
            );
            let last = page.records.last();
            page.next = Some(last.map_or(before_all, |record| (record.created_at, record.id)));
        }
        let mut shown = shown_page(&page, now);
        shown.items.splice(..0, self.items);
        shown.next_cursor = page.next.map(|after| {
            let named_to = self.spaces.last().cloned();
            Place { after, named_to }.to_string()
        });
        shown
    }
}

/// Where a list of keys goes on.
#[derive(PartialEq, Debug)]
pub(super) struct Place {
    pub(super) after: (Time, RecordId),
    /// The last space in which the first page has looked for the key that was named whole.
    pub(super) named_to: Option<Space>,
}

impl Place {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (ms, rest) = text.split_once('_')?;
        let (id, space) = rest
            .split_once('_')
            .map_or((rest, None), |(id, space)| (id, Some(space)));
        let space = space.map(|encoded| {
            let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?;
            Space::new(std::str::from_utf8(&bytes).ok()?).ok()
        });
        let named_to = match space {
            Some(space) => Some(space?),
            None => None,
        };
        let after = (Time::from_ms(ms.parse().ok()?), id.parse().ok()?);
        Some(Self { after, named_to })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cursor(self.after))?;
        match &self.named_to {
            Some(space) => write!(f, "_{}", BASE64URL_NOPAD.encode(space.as_str().as_bytes())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let after = (
            Time::from_ms(1_760_000_000_000),
            RecordId::from_uuid(uuid::Uuid::max()),
        );
        for named_to in [None, Some(Space::new("POST:pay_now").unwrap())] {
            let place = Place { after, named_to };
            assert_eq!(Place::read(&place.to_string()), Some(place));
        }
        for wrong in ["", "_", "1_", "x_7", "1760000000000"] {
            assert_eq!(Place::read(wrong), None, "{wrong}");
        }
    }
}

//! The two kinds of moves a backlog holds, as bytes and back. What is sealed stays sealed. It runs no statement.

use crate::sqlite::pack::{Column, Packed};

const CLAIMED: u8 = 1;
const SETTLED: u8 = 2;

/// One move that waits, borrowed from the bytes it stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Line<'b> {
    Claimed(Claimed<'b>),
    Settled(Settled<'b>),
}

/// A new key: the columns of its row while it is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claimed<'b> {
    pub(super) tenant: &'b [u8],
    pub(super) id: &'b [u8],
    pub(super) space: &'b str,
    pub(super) key: &'b str,
    pub(super) version: i64,
    pub(super) fingerprint: &'b [u8],
    pub(super) principal: Option<&'b [u8]>,
    pub(super) subject: Option<&'b [u8]>,
    pub(super) on_lost: &'b str,
    pub(super) lease_ms: i64,
    pub(super) epoch: i64,
    pub(super) owner: &'b [u8],
    pub(super) until: i64,
    pub(super) content_hash: &'b str,
    pub(super) method: &'b str,
    pub(super) path: &'b str,
    pub(super) content_type: &'b str,
    pub(super) body: Option<&'b [u8]>,
    pub(super) created_at: i64,
    pub(super) expires_at: i64,
}

/// What came of a key that was claimed in the same backlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settled<'b> {
    pub(super) tenant: &'b [u8],
    pub(super) id: &'b [u8],
    pub(super) version: i64,
    pub(super) status: i64,
    pub(super) headers: &'b str,
    pub(super) body: Option<&'b [u8]>,
    pub(super) completed_at: i64,
}

/// Adds the claim in `packed`. False, and nothing added, if it is none that a backlog can hold.
pub(super) fn put_claim(packed: &Packed, into: &mut Vec<u8>) -> bool {
    let next = &packed.step.next;
    let (Some(hold), false) = (next.hold(), is_apart(packed.request.as_ref())) else {
        return false;
    };
    into.push(CLAIMED);
    put(into, next.scope.tenant.as_uuid().as_bytes());
    put(into, next.id.as_uuid().as_bytes());
    put(into, next.scope.space.as_str().as_bytes());
    put(into, next.key.as_str().as_bytes());
    put_number(into, next.version.0);
    put(into, &packed.asked.fingerprint);
    put_some(into, next.principal.as_ref().map(|one| &one.as_bytes()[..]));
    put_some(into, next.subject.as_ref().map(|one| &one.as_bytes()[..]));
    put(into, next.on_lost.as_str().as_bytes());
    put_number(
        into,
        i64::try_from(next.lease.as_millis()).unwrap_or(i64::MAX),
    );
    put_number(into, hold.epoch.0.0);
    put(into, &hold.owner.as_u128().to_be_bytes());
    put_number(into, hold.until.as_ms());
    put(into, packed.asked.content_hash.as_bytes());
    put(into, next.request.method.as_bytes());
    put(into, packed.asked.path.as_bytes());
    put(into, next.request.content_type.as_bytes());
    put_some(into, packed.request.as_ref().and_then(Column::inline));
    put_number(into, next.created_at.as_ms());
    put_number(into, next.expires_at.as_ms());
    true
}

/// Adds the outcome in `packed`. False, and nothing added, if it is none that a backlog can hold.
pub(super) fn put_outcome(packed: &Packed, into: &mut Vec<u8>) -> bool {
    let next = &packed.step.next;
    let Some(response) = &packed.response else {
        return false;
    };
    into.push(SETTLED);
    put(into, next.scope.tenant.as_uuid().as_bytes());
    put(into, next.id.as_uuid().as_bytes());
    put_number(into, next.version.0);
    put_number(into, i64::from(response.status));
    put(into, response.headers.as_bytes());
    put_some(into, response.body.as_ref().and_then(Column::inline));
    put_number(into, response.completed_at);
    true
}

/// Whether a body belongs beside its row, where a backlog has no place for it.
pub(super) fn is_apart(column: Option<&Column>) -> bool {
    column.is_some_and(|column| column.apart().is_some())
}

/// The moves in `bytes`, in their order, and `None` last if one is damaged.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Option<Line<'_>>> {
    let mut left = Left(bytes);
    std::iter::from_fn(move || {
        if left.0.is_empty() {
            return None;
        }
        let line = left.line();
        if line.is_none() {
            // Whatever follows cannot be made sense of.
            left.0 = &[];
        }
        Some(line)
    })
}

fn put(into: &mut Vec<u8>, bytes: &[u8]) {
    // Bodies that are kept here are small, so a length fits; one that did not would be read as damaged.
    into.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend_from_slice(bytes);
}

fn put_some(into: &mut Vec<u8>, bytes: Option<&[u8]>) {
    into.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put(into, bytes);
    }
}

fn put_number(into: &mut Vec<u8>, number: i64) {
    into.extend_from_slice(&number.to_le_bytes());
}

/// What is not read yet.
struct Left<'b>(&'b [u8]);

impl<'b> Left<'b> {
    fn line(&mut self) -> Option<Line<'b>> {
        match self.cut(1)? {
            [CLAIMED] => self.claimed().map(Line::Claimed),
            [SETTLED] => self.settled().map(Line::Settled),
            _ => None,
        }
    }

    fn claimed(&mut self) -> Option<Claimed<'b>> {
        Some(Claimed {
            tenant: self.bytes()?,
            id: self.bytes()?,
            space: self.text()?,
            key: self.text()?,
            version: self.number()?,
            fingerprint: self.bytes()?,
            principal: self.some()?,
            subject: self.some()?,
            on_lost: self.text()?,
            lease_ms: self.number()?,
            epoch: self.number()?,
            owner: self.bytes()?,
            until: self.number()?,
            content_hash: self.text()?,
            method: self.text()?,
            path: self.text()?,
            content_type: self.text()?,
            body: self.some()?,
            created_at: self.number()?,
            expires_at: self.number()?,
        })
    }

    fn settled(&mut self) -> Option<Settled<'b>> {
        Some(Settled {
            tenant: self.bytes()?,
            id: self.bytes()?,
            version: self.number()?,
            status: self.number()?,
            headers: self.text()?,
            body: self.some()?,
            completed_at: self.number()?,
        })
    }

    fn cut(&mut self, length: usize) -> Option<&'b [u8]> {
        let (cut, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(cut)
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = u32::from_le_bytes(self.cut(4)?.try_into().ok()?);
        self.cut(usize::try_from(length).ok()?)
    }

    fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    #[allow(
        clippy::option_option,
        reason = "a column may be absent, and so may the end of it"
    )]
    fn some(&mut self) -> Option<Option<&'b [u8]>> {
        match self.cut(1)? {
            [0] => Some(None),
            [1] => self.bytes().map(Some),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.cut(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{
        Claim, Fingerprint, Key, Move, Outcome, Owner, Record, Scope, Tenant, Time, Version,
    };

    use super::*;

    /// A claim and its outcome, as a writer gets them.
    fn moves() -> [Packed; 2] {
        let scope = Scope::new(Tenant::DEFAULT, "POST:payments").unwrap();
        let key = Key::new("order-7").unwrap();
        let asked = Fingerprint::of(b"pay 10");
        let claim = Claim::new(scope, key, asked, Owner::from_u128(7));
        let now = Time::from_ms(1_700_000_000_000);
        let step = Move::inserting(Record::granted(&claim, Version::seeded(now), now));
        let settled = step.next.settled(Outcome::text(201, "paid"), now);
        let end = Move::replacing(&step.next, settled);
        [step, end].map(|step| Packed::of(step, None).unwrap())
    }

    fn noted() -> (Vec<u8>, usize) {
        let [claim, outcome] = moves();
        let mut bytes = Vec::new();
        assert!(put_claim(&claim, &mut bytes));
        let first = bytes.len();
        assert!(put_outcome(&outcome, &mut bytes));
        (bytes, first)
    }

    #[test]
    fn what_is_noted_down_is_read_as_it_was() {
        let (bytes, _) = noted();
        let [claim, outcome] = moves();
        let read: Vec<Line<'_>> = lines(&bytes).collect::<Option<_>>().unwrap();
        let [Line::Claimed(claimed), Line::Settled(settled)] = read[..] else {
            panic!("a claim and its outcome, not {read:?}")
        };
        let next = &claim.step.next;
        assert_eq!(claimed.id, next.id.as_uuid().as_bytes());
        assert_eq!((claimed.space, claimed.key), ("POST:payments", "order-7"));
        assert_eq!(claimed.fingerprint, next.fingerprint.as_bytes());
        assert_eq!(claimed.owner, 7_u128.to_be_bytes());
        assert_eq!(claimed.expires_at, next.expires_at.as_ms());
        assert_eq!((claimed.principal, claimed.subject), (None, None));
        assert_eq!(settled.id, claimed.id);
        assert_eq!(settled.version, outcome.step.next.version.0);
        assert_eq!(settled.status, 201);
        assert!(settled.body.is_some());
    }

    #[test]
    fn a_move_that_is_cut_short_is_damaged_and_nothing_is_read_past_it() {
        let (bytes, first) = noted();
        for length in 1..bytes.len() {
            let read: Vec<_> = lines(&bytes[..length]).collect();
            let is_whole = length == first;
            assert_eq!(read.iter().all(Option::is_some), is_whole, "{length} bytes");
            assert_eq!(read.len(), if length <= first { 1 } else { 2 }, "{length}");
        }
    }

    #[test]
    fn what_is_no_move_is_damaged() {
        for bytes in [&[0][..], &[3, 1, 2], &[CLAIMED, 255, 255, 255, 255]] {
            let read: Vec<_> = lines(bytes).collect();
            assert!(matches!(&read[..], [None]), "{bytes:?}");
        }
    }
}

//! How many bytes of bodies a process holds at once, so that no number of clients fills its memory. It knows no key
//! and no route.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use hapax_core::Tenant;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::Notify;

/// What a process may hold unless it is told otherwise.
const BYTES_MAX: usize = 256 << 20;
/// The smallest buffer of a body that does not come in one piece.
const BUFFER_BYTES_MIN: usize = 256;
/// How long a body that was told to give way may take to do so. It takes one turn of its task.
const GIVES_WAY_WITHIN: Duration = Duration::from_secs(1);

/// A limit to the bytes of all bodies that are buffered at once, which several layers can share.
///
/// Bytes count from the moment they are buffered until the [`Hold`] on them is dropped; a length that is only announced
/// counts nothing. When the budget is used up, the body that has been arriving for longest gives way: its reader gets
/// [`Unread::Exhausted`]. A client that drips its body so holds up nobody whose body arrives at once. One tenant may hold
/// half of the budget, unless all of it is one body. Answers may use a quarter more, so that requests that
/// wait for theirs do not keep them from being recorded.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::core::Tenant;
/// use hapax::layer::{Budget, Unread};
/// use http_body_util::Full;
///
/// let budget = Budget::new(8);
/// let body = |text: &'static str| Full::new(bytes::Bytes::from(text));
/// let (bytes, hold) = budget.read(Tenant::DEFAULT, body("12345678"), 100).await.unwrap();
/// assert_eq!((bytes.as_ref(), budget.held()), (&b"12345678"[..], 8));
///
/// let refused = budget.read(Tenant::DEFAULT, body("9"), 100).await;
/// assert!(matches!(refused, Err(Unread::Exhausted)), "there is no room just now");
/// let refused = budget.read(Tenant::DEFAULT, body("123456789"), 100).await;
/// assert!(matches!(refused, Err(Unread::TooLarge)), "there never is");
/// drop(hold);
/// assert_eq!(budget.held(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bytes_max: usize,
    held: Mutex<Held>,
    refunded: Notify,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    by_tenant: HashMap<Tenant, usize>,
    /// The bodies that are not complete, the oldest first.
    arriving: BTreeMap<u64, Arriving>,
    next: u64,
}

/// A body that is waited for.
#[derive(Debug)]
struct Arriving {
    tenant: Tenant,
    bytes: usize,
    gives_way: Arc<Notify>,
    was_told: bool,
}

/// Why a body was not read to its end. None of it is kept.
#[derive(Debug)]
pub enum Unread<E> {
    /// It is larger than it may be.
    TooLarge,
    /// The budget is used up: a retry may find room.
    Exhausted,
    /// It broke off.
    Broken(E),
}

/// Bytes of a [`Budget`] that are in use until this is dropped.
#[derive(Debug)]
pub struct Hold {
    budget: Budget,
    tenant: Tenant,
    bytes: usize,
    /// Its place among the bodies that are not complete.
    place: Option<u64>,
}

/// What asking for more bytes came to.
enum Room {
    Taken,
    /// Others were told to give way.
    Soon,
    No,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Inner {
            bytes_max,
            held: Mutex::default(),
            refunded: Notify::new(),
        }))
    }

    /// How many bytes are in use.
    #[must_use]
    pub fn held(&self) -> usize {
        self.locked().bytes
    }

    /// Reads a body of at most `bytes_max` bytes. Its bytes count for `tenant` while the hold lives.
    ///
    /// A dropped future leaves nothing behind.
    ///
    /// # Errors
    /// [`Unread::TooLarge`] as soon as that is known, [`Unread::Exhausted`] when there is no room or the body took too
    /// long while others had none, [`Unread::Broken`] when it failed.
    pub async fn read<B: Body>(
        &self,
        tenant: Tenant,
        body: B,
        bytes_max: usize,
    ) -> Result<(Bytes, Hold), Unread<B::Error>> {
        let bytes_max = bytes_max.min(self.0.bytes_max);
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(Unread::TooLarge);
        }
        let mut body = pin!(body);
        let (mut buffer, mut gives_way) = (Buffer::new(self, tenant), None);
        loop {
            let next = {
                let mut next = pin!(body.frame());
                if let Some(ready) = next.as_mut().now_or_never() {
                    ready
                } else {
                    // Most bodies are there at once, and never in anybody's way.
                    let gives_way = gives_way.get_or_insert_with(|| buffer.hold.waits());
                    tokio::select! {
                        biased;
                        next = next => next,
                        () = gives_way.notified() => return Err(Unread::Exhausted),
                    }
                }
            };
            let data = match next.transpose().map_err(Unread::Broken)? {
                None => return Ok(buffer.whole()),
                Some(frame) => match frame.into_data() {
                    Ok(data) => data,
                    // Trailers.
                    Err(_) => continue,
                },
            };
            if buffer.len() + data.remaining() > bytes_max {
                return Err(Unread::TooLarge);
            }
            let upper = upper(&body, buffer.len() + data.remaining(), bytes_max);
            let is_last = body.is_end_stream();
            if buffer.push(data, is_last, upper, 0).await.is_err() {
                return Err(Unread::Exhausted);
            }
        }
    }

    /// A hold on so many bytes that are there already, if there is room for them among the answers.
    #[must_use]
    pub fn hold(&self, tenant: Tenant, bytes: usize) -> Option<Hold> {
        let mut hold = self.nothing(tenant);
        let room = self
            .locked()
            .take(&mut hold, bytes, self.limits(self.beyond()));
        matches!(room, Room::Taken).then_some(hold)
    }

    fn nothing(&self, tenant: Tenant) -> Hold {
        Hold {
            budget: self.clone(),
            tenant,
            bytes: 0,
            place: None,
        }
    }

    /// What answers may use beyond the budget.
    fn beyond(&self) -> usize {
        self.0.bytes_max / 4
    }

    fn limits(&self, beyond: usize) -> Limits {
        Limits {
            all: self.0.bytes_max.saturating_add(beyond),
            each: (self.0.bytes_max / 2).saturating_add(beyond),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while this is held.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much all may hold, and how much of it each tenant.
#[derive(Clone, Copy)]
struct Limits {
    all: usize,
    each: usize,
}

impl Held {
    /// Adds bytes to a hold, or tells older bodies to give way to it.
    fn take(&mut self, hold: &mut Hold, more: usize, limits: Limits) -> Room {
        // Whoever was told to give way gets nothing more.
        let own = hold.place.and_then(|place| self.arriving.get(&place));
        if own.is_some_and(|own| own.was_told) {
            return Room::No;
        }
        let of_tenant = self.by_tenant.get(&hold.tenant).copied().unwrap_or(0);
        let lacks = (self.bytes + more).saturating_sub(limits.all);
        let lacks_here = match of_tenant - hold.bytes {
            0 => 0,
            _others => (of_tenant + more).saturating_sub(limits.each),
        };
        if lacks == 0 && lacks_here == 0 {
            self.bytes += more;
            *self.by_tenant.entry(hold.tenant).or_default() += more;
            hold.bytes += more;
            let place = hold.place.and_then(|place| self.arriving.get_mut(&place));
            if let Some(arriving) = place {
                arriving.bytes = hold.bytes;
            }
            return Room::Taken;
        }
        self.make_room(hold, lacks, lacks_here)
    }

    /// Tells bodies to give way, the oldest first and none that is younger than `hold`, if that is enough.
    fn make_room(&mut self, hold: &Hold, lacks: usize, lacks_here: usize) -> Room {
        let (mut freed, mut freed_here) = (0, 0);
        let older = match hold.place {
            Some(place) => self.arriving.range(..place),
            None => self.arriving.range(..),
        };
        let mut told = Vec::new();
        for (place, body) in older.filter(|(_, body)| body.bytes > 0) {
            if freed >= lacks && freed_here >= lacks_here {
                break;
            }
            let is_here = body.tenant == hold.tenant;
            if is_here || freed < lacks {
                freed += body.bytes;
                freed_here += if is_here { body.bytes } else { 0 };
                told.push(*place);
            }
        }
        if freed < lacks || freed_here < lacks_here {
            return Room::No;
        }
        for place in told {
            if let Some(body) = self.arriving.get_mut(&place)
                && !body.was_told
            {
                body.was_told = true;
                body.gives_way.notify_one();
            }
        }
        Room::Soon
    }

    fn refund(&mut self, hold: &Hold) {
        self.bytes -= hold.bytes;
        if let Some(of_tenant) = self.by_tenant.get_mut(&hold.tenant) {
            *of_tenant -= hold.bytes;
            if *of_tenant == 0 {
                self.by_tenant.remove(&hold.tenant);
            }
        }
        if let Some(place) = hold.place {
            self.arriving.remove(&place);
        }
    }
}

impl Hold {
    /// The same bytes, which keep this hold until the last reference to them is gone.
    #[must_use]
    pub fn around(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Owner { bytes, _hold: self })
    }

    /// Gives back all but so many bytes.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let budget = self.budget.clone();
        let mut less = budget.nothing(self.tenant);
        less.bytes = self.bytes.saturating_sub(bytes);
        self.bytes -= less.bytes;
        // Dropped, it refunds what it holds.
    }

    /// Adds bytes. False if there is no room for them.
    async fn grow(&mut self, more: usize, beyond: usize) -> bool {
        let budget = self.budget.clone();
        let limits = budget.limits(beyond);
        loop {
            let mut refunded = pin!(budget.0.refunded.notified());
            refunded.as_mut().enable();
            // The lock is gone before anything is waited for.
            let room = budget.locked().take(self, more, limits);
            match room {
                Room::Taken => return true,
                Room::No => return false,
                Room::Soon => {}
            }
            if tokio::time::timeout(GIVES_WAY_WITHIN, refunded)
                .await
                .is_err()
            {
                return false;
            }
        }
    }

    /// Takes a place among the bodies that are not complete. Answers what says that it must give way.
    fn waits(&mut self) -> Arc<Notify> {
        let gives_way = Arc::new(Notify::new());
        let mut held = self.budget.locked();
        let place = held.next;
        held.next += 1;
        let arriving = Arriving {
            tenant: self.tenant,
            bytes: self.bytes,
            gives_way: Arc::clone(&gives_way),
            was_told: false,
        };
        held.arriving.insert(place, arriving);
        self.place = Some(place);
        gives_way
    }

    /// It is complete, and gives way to nothing any more.
    fn arrived(&mut self) {
        if let Some(place) = self.place.take() {
            self.budget.locked().arriving.remove(&place);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.bytes == 0 && self.place.is_none() {
            return;
        }
        self.budget.locked().refund(self);
        self.budget.0.refunded.notify_waiters();
    }
}

/// Bytes with the hold on them.
struct Owner {
    bytes: Bytes,
    _hold: Hold,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that is gathered. What it allocates is what it holds.
pub(super) struct Buffer {
    hold: Hold,
    bytes: Vec<u8>,
    /// All of a body that came in one piece.
    piece: Option<Bytes>,
}

impl Buffer {
    fn new(budget: &Budget, tenant: Tenant) -> Self {
        Self {
            hold: budget.nothing(tenant),
            bytes: Vec::new(),
            piece: None,
        }
    }

    /// One for an answer.
    pub(super) fn of_answer(budget: &Budget, tenant: Tenant) -> Self {
        Self::new(budget, tenant)
    }

    pub(super) fn len(&self) -> usize {
        self.piece.as_ref().map_or(self.bytes.len(), Bytes::len)
    }

    /// What was gathered until now.
    pub(super) fn so_far(&self) -> &[u8] {
        self.piece.as_deref().unwrap_or(&self.bytes)
    }

    /// Adds a piece of an answer of at most `upper` bytes, or gives it back where there is no room for it.
    pub(super) async fn push_answer<D: Buf>(
        &mut self,
        data: D,
        is_last: bool,
        upper: usize,
    ) -> Result<(), D> {
        let beyond = self.hold.budget.beyond();
        self.push(data, is_last, upper, beyond).await
    }

    async fn push<D: Buf>(
        &mut self,
        mut data: D,
        is_last: bool,
        upper: usize,
        beyond: usize,
    ) -> Result<(), D> {
        let (more, length) = (data.remaining(), self.bytes.len());
        if is_last && length == 0 && self.piece.is_none() {
            if !self.hold.grow(more, beyond).await {
                return Err(data);
            }
            self.piece = Some(data.copy_to_bytes(more));
            return Ok(());
        }
        if length + more > self.bytes.capacity() {
            let wanted = (length + more).next_power_of_two().max(BUFFER_BYTES_MIN);
            let capacity = wanted.min(upper).max(length + more);
            if !self.hold.grow(capacity - self.hold.bytes, beyond).await {
                return Err(data);
            }
            self.bytes.reserve_exact(capacity - length);
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            self.bytes.extend_from_slice(chunk);
            let taken = chunk.len();
            data.advance(taken);
        }
        Ok(())
    }

    /// All that was gathered, and the hold on it.
    pub(super) fn whole(mut self) -> (Bytes, Hold) {
        self.hold.arrived();
        let bytes = self.piece.unwrap_or_else(|| self.bytes.into());
        (bytes, self.hold)
    }
}

/// The most that a body can be, of which `read` bytes are here.
pub(super) fn upper<B: Body>(body: &B, read: usize, bytes_max: usize) -> usize {
    let left = body.size_hint().upper();
    let left = left.and_then(|left| usize::try_from(left).ok());
    left.map_or(bytes_max, |left| read.saturating_add(left).min(bytes_max))
}

#[cfg(test)]
mod tests;

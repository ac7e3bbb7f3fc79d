//! The driver against a store that fails, forgets and is shared: every message is written once.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hapax_core::entry::{Counts, Cursor, ImportError, NewImport, Schema, Target};
use hapax_core::{Answer, Kind, Time};

use super::*;
use crate::import::mailbox::Mailbox;

const MAILS: u64 = 50;

/// What goes wrong with the n-th chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mishap {
    /// The store is away; nothing is written.
    Away,
    /// It is written, and the answer gets lost.
    Lost,
    /// Another driver writes it first.
    Overtaken,
}

/// A store of one import in memory.
struct Shelf {
    import: Mutex<Import>,
    /// How often each message was written.
    written: Mutex<BTreeMap<u64, u32>>,
    calls: AtomicUsize,
    mishaps: BTreeMap<usize, Mishap>,
    /// A message that the store does not take.
    poison: Option<u64>,
    queued: AtomicUsize,
    /// How many chunks may be handed in at once, how many are, and how many were at most.
    at_once: usize,
    handed: AtomicUsize,
    handed_most: AtomicUsize,
}

impl Shelf {
    fn new(chunk_size: u32) -> Self {
        let import = Import {
            id: Uuid::from_u128(7),
            asked: NewImport {
                id: Uuid::from_u128(7),
                path: "a.mbox".to_owned(),
                target: Target::Pinned(Schema::Pkm),
                batch_size: 500,
                insert_chunk_size: chunk_size,
                completion_window: "24h".to_owned(),
                thread_policy: None,
                bytes: None,
            },
            schema: Schema::Pkm,
            status: ImportStatus::Running,
            step: Step::Reading,
            cursor: Cursor::default(),
            counts: Counts::default(),
            errors: Vec::new(),
            batches: Vec::new(),
            error: None,
            created_at: Time::from_ms(0),
            updated_at: Time::from_ms(0),
        };
        Self {
            import: Mutex::new(import),
            written: Mutex::default(),
            calls: AtomicUsize::new(0),
            mishaps: BTreeMap::new(),
            poison: None,
            queued: AtomicUsize::new(0),
            at_once: 1,
            handed: AtomicUsize::new(0),
            handed_most: AtomicUsize::new(0),
        }
    }

    fn taking(at_once: usize, chunk_size: u32) -> Self {
        Self {
            at_once,
            ..Self::new(chunk_size)
        }
    }

    /// What the n-th call comes to.
    fn called(&self, call: usize, chunk: &Chunk) -> Result<Option<Import>, Error> {
        let is_poison = |(index, entry): &(u64, Incoming)| {
            Some(*index) == self.poison && matches!(entry, Incoming::Insert(_))
        };
        let is_here = self.now().cursor == chunk.from;
        if is_here && chunk.entries.iter().any(is_poison) {
            return Err(Error::new(Kind::Corrupt, "writing a chunk"));
        }
        match self.mishaps.get(&call) {
            Some(Mishap::Away) => Err(Error::new(Kind::Unavailable, "writing a chunk")),
            Some(Mishap::Lost) => {
                self.write(chunk);
                Err(Error::new(Kind::OutcomeUnknown, "writing a chunk"))
            }
            Some(Mishap::Overtaken) => {
                self.write(chunk);
                Ok(self.write(chunk))
            }
            None => Ok(self.write(chunk)),
        }
    }

    fn now(&self) -> Import {
        let import = self.import.lock().unwrap_or_else(PoisonError::into_inner);
        import.clone()
    }

    fn write(&self, chunk: &Chunk) -> Option<Import> {
        let mut import = self.import.lock().unwrap();
        let reads = import.status == ImportStatus::Running && import.step == Step::Reading;
        if !reads || import.cursor != chunk.from {
            return None;
        }
        for (index, entry) in &chunk.entries {
            match entry {
                Incoming::Refused(_) => import.counts.insert_errors += 1,
                _ => *self.written.lock().unwrap().entry(*index).or_default() += 1,
            }
        }
        import.cursor = chunk.to.clone();
        import.counts.total_messages += chunk.messages;
        import.counts.normalize_errors += chunk.faults.len() as u64;
        import.errors.extend(chunk.faults.iter().cloned());
        import.errors.truncate(ImportError::KEPT_MAX);
        if chunk.is_last {
            import.step = Step::Queueing;
        }
        Some(import.clone())
    }
}

impl Imports for Shelf {
    fn begin_import(&self, _: Tenant, _: NewImport) -> Answer<'_, Import> {
        Box::pin(async { Ok(self.now()) })
    }

    fn import(&self, _: Tenant, _: Uuid) -> Answer<'_, Option<Import>> {
        Box::pin(async { Ok(Some(self.now())) })
    }

    fn imports(&self, _: Tenant, _: Option<Uuid>, _: usize) -> Answer<'_, Vec<Import>> {
        Box::pin(async { Ok(vec![self.now()]) })
    }

    fn import_chunk(&self, _: Tenant, _: Uuid, chunk: Chunk) -> Answer<'_, Option<Import>> {
        Box::pin(async move {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            let handed = 1 + self.handed.fetch_add(1, Ordering::SeqCst);
            self.handed_most.fetch_max(handed, Ordering::SeqCst);
            let answer = self.called(call, &chunk);
            // It is done, and the answer takes a while.
            tokio::task::yield_now().await;
            self.handed.fetch_sub(1, Ordering::SeqCst);
            answer
        })
    }

    fn chunks_at_once(&self) -> usize {
        self.at_once
    }

    fn queue_candidates(&self, _: Tenant, _: Uuid, _: Uuid) -> Answer<'_, Option<Import>> {
        Box::pin(async {
            let mut import = self.import.lock().unwrap();
            match self.queued.fetch_add(1, Ordering::SeqCst) {
                0 => return Err(Error::new(Kind::Unavailable, "queueing")),
                1 | 2 => {}
                _ if import.error.is_some() => import.status = ImportStatus::Failed,
                _ => import.status = ImportStatus::Completed,
            }
            Ok(Some(import.clone()))
        })
    }

    fn fail_import(&self, _: Tenant, _: Uuid, error: String) -> Answer<'_, Option<Import>> {
        Box::pin(async {
            let mut import = self.import.lock().unwrap();
            (import.step, import.error) = (Step::Queueing, Some(error));
            Ok(Some(import.clone()))
        })
    }
}

fn mailbox() -> String {
    let mail = |number: u64| {
        let text = if number == 3 { "" } else { "Words.\n" };
        format!(
            "From a Thu Aug 22 12:36:23 2002\nFrom: News <n@example.org>\nSubject: Issue {number}\n\
             Message-ID: <{number}@example.org>\n\n{text}\n"
        )
    };
    (0..MAILS).map(mail).collect()
}

fn opening(bytes: impl Into<Vec<u8>>) -> Open {
    let bytes = bytes.into();
    Arc::new(move || {
        let mut file = tempfile::tempfile()?;
        file.write_all(&bytes)?;
        Mailbox::of(file)
    })
}

async fn driven(shelf: &Shelf) -> Import {
    let (open, watched) = (opening(mailbox()), Watched::default());
    let run = run(shelf, Tenant::DEFAULT, shelf.now(), open, &watched, &|_| {});
    run.await.unwrap()
}

/// Every message but the one without a text, and the poisoned one if there is one, was written once.
fn is_whole(shelf: &Shelf, import: &Import) {
    assert_eq!(import.status, ImportStatus::Completed);
    assert_eq!(import.counts.total_messages, MAILS);
    assert_eq!(import.counts.normalize_errors, 1);
    assert_eq!(
        (import.errors[0].phase, import.errors[0].index),
        ("normalize", 3)
    );
    let missing = |index: &u64| *index != 3 && Some(*index) != shelf.poison;
    let expected: BTreeMap<u64, u32> = (0..MAILS).filter(missing).map(|index| (index, 1)).collect();
    assert_eq!(*shelf.written.lock().unwrap(), expected);
}

#[tokio::test]
async fn every_message_is_written_once_whatever_the_size_of_a_chunk() {
    for (at_once, size) in [1, 4]
        .into_iter()
        .flat_map(|at_once| [1, 2, 7, 50, 2000].map(|size| (at_once, size)))
    {
        let shelf = Shelf::taking(at_once, size);
        let import = driven(&shelf).await;
        is_whole(&shelf, &import);
        assert_eq!(import.cursor.offset, mailbox().len() as u64);
        assert!(shelf.handed_most.load(Ordering::SeqCst) <= at_once);
    }
}

#[tokio::test]
async fn a_store_that_is_away_or_loses_its_answer_costs_nothing() {
    for mishap in [Mishap::Away, Mishap::Lost, Mishap::Overtaken] {
        for (call, at_once) in (0..8).flat_map(|call| [1, 2, 4].map(|at_once| (call, at_once))) {
            let mut shelf = Shelf::taking(at_once, 7);
            shelf.mishaps = BTreeMap::from([(call, mishap), (call + 1, Mishap::Away)]);
            let import = driven(&shelf).await;
            is_whole(&shelf, &import);
        }
    }
}

#[tokio::test]
async fn a_store_that_stays_away_leaves_the_import_where_it_is() {
    let mut shelf = Shelf::new(7);
    shelf.mishaps = (2..100).map(|call| (call, Mishap::Away)).collect();
    let (open, watched) = (opening(mailbox()), Watched::default());
    let stopped = run(
        &shelf,
        Tenant::DEFAULT,
        shelf.now(),
        open,
        &watched,
        &|_| {},
    )
    .await;
    assert!(matches!(stopped, Err(Stopped::Store(error)) if error.is_transient()));
    assert_eq!(
        (shelf.now().status, shelf.now().cursor.index),
        (ImportStatus::Running, 14)
    );

    shelf.mishaps.clear();
    let import = driven(&shelf).await;
    is_whole(&shelf, &import);
}

#[tokio::test]
async fn one_message_that_the_store_does_not_take_is_refused_alone() {
    for (poison, at_once) in [
        (0, 1),
        (20, 1),
        (MAILS - 1, 1),
        (0, 4),
        (20, 4),
        (MAILS - 1, 4),
    ] {
        let mut shelf = Shelf::taking(at_once, 7);
        shelf.poison = Some(poison);
        let import = driven(&shelf).await;
        is_whole(&shelf, &import);
        assert_eq!(import.counts.insert_errors, 1);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_leaves_the_import_running() {
    let shelf = Shelf::new(7);
    let open: Open = Arc::new(|| Err(io::Error::other("no such disk")));
    let watched = Watched::default();
    let stopped = run(
        &shelf,
        Tenant::DEFAULT,
        shelf.now(),
        open,
        &watched,
        &|_| {},
    )
    .await;
    assert!(matches!(stopped, Err(Stopped::File(_))));
    assert_eq!(shelf.now().status, ImportStatus::Running);
}

/// How many of the first messages are whole in these bytes: those that another one begins after.
fn whole_in(bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let begun = text.matches("From a Thu Aug 22 12:36:23 2002").count() as u64;
    begun.saturating_sub(1)
}

#[tokio::test]
async fn of_a_file_that_breaks_off_every_whole_message_is_written_and_queued() {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Read;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(mailbox().as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    for (size, len) in [
        (2, whole.len() / 3),
        (7, whole.len() / 2),
        (1, whole.len() / 2),
        (2000, whole.len() * 3 / 4),
        (7, whole.len() - 3),
        (7, 15),
    ] {
        let torn = whole[..len].to_vec();
        let mut before = Vec::new();
        // What comes out before the error is kept.
        let _ = flate2::read::GzDecoder::new(&torn[..]).read_to_end(&mut before);
        let count = whole_in(&before);
        let shelf = Shelf::taking(4, size);
        let watched = Watched::default();
        let run = run(
            &shelf,
            Tenant::DEFAULT,
            shelf.now(),
            opening(torn),
            &watched,
            &|_| {},
        );
        let import = run.await.unwrap();

        assert_eq!(import.status, ImportStatus::Failed, "{size} {len}");
        assert!(import.error.unwrap().contains("ends early"));
        assert!(shelf.queued.load(Ordering::SeqCst) > 1, "it was queued");
        let expected: BTreeMap<u64, u32> = (0..count)
            .filter(|index| *index != 3)
            .map(|index| (index, 1))
            .collect();
        assert_eq!(*shelf.written.lock().unwrap(), expected, "{size} {len}");
        if !before.is_empty() {
            assert_eq!(import.counts.total_messages, count + 1);
            let cut = import.errors.last().unwrap();
            assert_eq!((cut.phase, cut.index), ("normalize", count));
            assert!(cut.message.contains("breaks off"), "{}", cut.message);
        }
    }
}

#[tokio::test]
async fn an_import_that_was_given_up_and_left_is_queued_by_the_next_without_its_file() {
    let shelf = Shelf::new(7);
    let given_up = shelf.fail_import(Tenant::DEFAULT, Uuid::from_u128(7), "why".to_owned());
    given_up.await.unwrap();
    let open: Open = Arc::new(|| Err(io::Error::other("no such disk")));
    let watched = Watched::default();
    let run = run(
        &shelf,
        Tenant::DEFAULT,
        shelf.now(),
        open,
        &watched,
        &|_| {},
    );
    let import = run.await.unwrap();
    assert_eq!(
        (import.status, import.error.as_deref()),
        (ImportStatus::Failed, Some("why"))
    );
}

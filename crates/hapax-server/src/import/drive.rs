//! Brings an import to its end: chunk after chunk, then batch after batch of what is to be enriched. It may be dropped
//! at any time, and whoever calls it again goes on from what is stored.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{Chunk, Import, ImportStatus, Imports, Incoming, Refused, Step};
use hapax_core::{Error, Tenant};
use hapax_intake::email::REFERENCES_POLICY;
use uuid::Uuid;

use super::chunks::{Chunks, Fault, Open, Rule};
use super::handed::{Handed, Written};
use super::mailbox::{Unreadable, Watched};

/// How often a store that is away is asked again, and the pauses between. It is about half a minute in all.
const TRIES_MAX: u32 = 10;
const PAUSE_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 50 });
const PAUSE_LONGEST: Duration = PAUSE_FIRST.saturating_mul(100);

const CHANGED: &str = "the file is not the one that was begun: what was read already has changed; import it again, as a \
                       new import it inserts only what is new";
const NO_MAILBOX: &str = "no message begins in the file; it is not a mailbox";

/// Why an import was left where it is. It still runs, and can be gone on with.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The store could not be asked.
    Store(Error),
    /// The file could not be read.
    File(io::Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Store(error) => error.fmt(f),
            Stopped::File(why) => write!(f, "reading the mailbox: {why}"),
        }
    }
}

/// Drives `import` to its end and answers it as it is then. `open` opens its file, on the thread that reads and again for
/// each time the reading starts over; `progress` hears of every step that is stored.
///
/// # Errors
/// [`Stopped`] when it was left before its end.
pub(crate) async fn run(
    imports: &dyn Imports,
    tenant: Tenant,
    mut import: Import,
    open: Open,
    watched: &Watched,
    progress: &(dyn Fn(&Import) + Send + Sync),
) -> Result<Import, Stopped> {
    let driver = Driver { imports, tenant };
    let (mut pace, mut away) = (Pace::Usual, Away::default());
    while import.status == ImportStatus::Running {
        import = match import.step {
            Step::Queueing => driver.queue(import).await?,
            Step::Reading => {
                let reading = Reading {
                    open: Arc::clone(&open),
                    watched,
                    progress,
                };
                let read = driver.read(import, reading, pace, &mut away);
                let (read, next) = read.await?;
                pace = next;
                read
            }
        };
        progress(&import);
    }
    Ok(import)
}

/// How many messages go into a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    /// As many as was asked for.
    Usual,
    /// One, this many times: among as many was one that the store does not take.
    Single(u32),
}

/// What is read, and who hears of it.
struct Reading<'a> {
    open: Open,
    watched: &'a Watched,
    progress: &'a (dyn Fn(&Import) + Send + Sync),
}

struct Driver<'a> {
    imports: &'a dyn Imports,
    tenant: Tenant,
}

impl Driver<'_> {
    /// Reads on from where the import stands until it does so no more, or has to start over.
    async fn read(
        &self,
        mut import: Import,
        reading: Reading<'_>,
        mut pace: Pace,
        away: &mut Away,
    ) -> Result<(Import, Pace), Stopped> {
        let most = import.asked.insert_chunk_size;
        let rule = Rule {
            messages_max: match pace {
                Pace::Usual => most as usize,
                Pace::Single(_) => 1,
            },
            by_references: import.asked.thread_policy.as_deref() == Some(REFERENCES_POLICY),
        };
        // A reading that was stopped stays so; each one has its own word, and they share the count.
        let mut chunks = Chunks::read(
            reading.open,
            import.cursor.clone(),
            rule,
            reading.watched.renewed(),
        );
        let mut handed = Handed::at_most(match pace {
            Pace::Usual => self.imports.chunks_at_once(),
            Pace::Single(_) => 1,
        });
        let (mut is_read, mut fault) = (false, None);
        loop {
            let written = tokio::select! {
                biased;
                Some(written) = handed.next(), if !handed.is_empty() => written,
                chunk = chunks.next(), if !is_read && handed.has_room() => {
                    match chunk {
                        Some(Ok(chunk)) => self.hand_in(import.id, chunk, &mut handed).await,
                        Some(Err(why)) => (is_read, fault) = (true, Some(why)),
                        None => is_read = true,
                    }
                    continue;
                }
                else => break,
            };
            let Written { to, alone, answer } = written;
            let is_last = handed.is_empty();
            if !matches!(answer, Ok(Some(_))) {
                // Those behind it are refused, or it was written and they are too: the store says which.
                handed.rest().await;
            }
            import = match answer {
                Ok(Some(written)) => written,
                Ok(None) => {
                    let now = self.again(import.id).await?;
                    // An answer got lost: it was written. Otherwise somebody else went on, and so do we from there; also
                    // when it is not known what became of those behind it.
                    if now.cursor != to || !is_last || now.status != ImportStatus::Running {
                        return Ok((now, pace));
                    }
                    now
                }
                Err(error) if error.is_transient() => {
                    away.rest("an import's chunk", error).await?;
                    return Ok((self.again(import.id).await?, pace));
                }
                Err(error) => {
                    tracing::error!(import = %import.id, index = import.cursor.index, %error, "the store does not take a chunk");
                    return match alone {
                        None => Ok((import, Pace::Single(most))),
                        Some(alone) => Ok((self.leave_out(import.id, alone).await?, Pace::Usual)),
                    };
                }
            };
            *away = Away::default();
            (reading.progress)(&import);
            if import.step == Step::Queueing || import.status != ImportStatus::Running {
                break;
            }
            pace = match pace {
                Pace::Usual => Pace::Usual,
                Pace::Single(left @ 2..) => Pace::Single(left - 1),
                Pace::Single(_) => return Ok((import, Pace::Usual)),
            };
        }
        match fault {
            Some(fault) => Ok((self.give_up(import, fault).await?, Pace::Usual)),
            None => Ok((import, Pace::Usual)),
        }
    }

    /// Records that the store refused the message of this chunk, and goes on behind it.
    async fn leave_out(&self, id: Uuid, refused: Chunk) -> Result<Import, Stopped> {
        let written = patiently("a refused message", || {
            self.imports.import_chunk(self.tenant, id, refused.clone())
        });
        match written.await? {
            Some(written) => Ok(written),
            None => self.again(id).await,
        }
    }

    /// Hands a chunk to the store. It is not kept for another try: it may be large, and can be read again.
    async fn hand_in<'a>(&'a self, id: Uuid, chunk: Chunk, handed: &mut Handed<'a>) {
        let (to, alone) = (chunk.to.clone(), refused_alone(&chunk));
        let answer = self.imports.import_chunk(self.tenant, id, chunk);
        handed.put(to, alone, answer).await;
    }

    /// Queues until there is nothing left. A batch whose answer got lost is there; the next call makes the next.
    async fn queue(&self, import: Import) -> Result<Import, Stopped> {
        let queued = patiently("an import's batch", || {
            let batch = Uuid::now_v7();
            self.imports.queue_candidates(self.tenant, import.id, batch)
        })
        .await?;
        match queued {
            Some(queued) => Ok(queued),
            None => self.again(import.id).await,
        }
    }

    /// Gives an import up whose file cannot be read on; it ends when what it wrote is queued. What may pass, such as a disk
    /// that is away, does not end it.
    async fn give_up(&self, import: Import, fault: Fault) -> Result<Import, Stopped> {
        let why = match fault {
            Fault::NoMailbox => NO_MAILBOX.to_owned(),
            Fault::Unreadable(Unreadable::Changed) => CHANGED.to_owned(),
            Fault::Unreadable(Unreadable::Damaged(why)) => format!(
                "the compressed file is damaged or ends early: {why}; what was read before is kept; mend it and import it again"
            ),
            Fault::Unreadable(Unreadable::Io(why)) => return Err(Stopped::File(why)),
        };
        let given_up = patiently("an import's end", || {
            self.imports
                .fail_import(self.tenant, import.id, why.clone())
        })
        .await?;
        match given_up {
            Some(given_up) => Ok(given_up),
            None => self.again(import.id).await,
        }
    }

    /// The import as it is stored now.
    async fn again(&self, id: Uuid) -> Result<Import, Stopped> {
        let found = patiently("an import", || self.imports.import(self.tenant, id)).await?;
        found.ok_or_else(|| {
            let gone = Error::new(hapax_core::Kind::Corrupt, "reading an import");
            gone.because("it is not there any more").into()
        })
    }
}

/// A chunk of one message as one that was refused; `None` of several.
fn refused_alone(chunk: &Chunk) -> Option<Chunk> {
    let why = "the store does not take it; the log says why";
    let refused = |index| {
        let refused = Refused::new("store_refused", why);
        (index, Incoming::Refused(refused))
    };
    let entries = chunk.entries.iter().map(|(index, _)| refused(*index));
    (chunk.messages <= 1).then(|| Chunk {
        from: chunk.from.clone(),
        to: chunk.to.clone(),
        messages: chunk.messages,
        entries: entries.collect(),
        faults: chunk.faults.clone(),
        is_last: chunk.is_last,
    })
}

/// How often the store was away in a row.
struct Away {
    tries: u32,
    pause: Duration,
}

impl Default for Away {
    fn default() -> Self {
        Self {
            tries: 1,
            pause: PAUSE_FIRST,
        }
    }
}

impl Away {
    /// Waits a while before the next try.
    ///
    /// # Errors
    /// The error, if it has been tried often enough.
    async fn rest(&mut self, what: &str, error: Error) -> Result<(), Error> {
        if self.tries >= TRIES_MAX {
            return Err(error);
        }
        tracing::warn!(%error, tries = self.tries, "{what} was not stored or read; trying again");
        tokio::time::sleep(self.pause).await;
        self.tries += 1;
        self.pause = (self.pause * 2).min(PAUSE_LONGEST);
        Ok(())
    }
}

/// Asks again while the store is away.
async fn patiently<T, F>(what: &str, ask: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut away = Away::default();
    loop {
        match ask().await {
            Err(error) if error.is_transient() => away.rest(what, error).await?,
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests;

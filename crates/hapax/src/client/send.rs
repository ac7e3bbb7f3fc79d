//! Sending: store the key, try, wait, try again. What an answer means is decided in `verdict`, how long
//! to wait in `backoff`.

use std::io;
use std::time::{Duration, SystemTime};

use hapax_core::Key;
use reqwest::Url;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::attempt::{Failure, attempt};
use super::backoff::random_part;
use super::verdict::{Received, Verdict, judge};
use super::{Answer, BoxError, Conflict, Error, Request};

pub(super) async fn send(request: Request, url: Url, key: Key) -> Result<Answer, Error> {
    let until = Instant::now() + request.limits.deadline;
    let mut sending = Sending {
        request,
        url,
        until,
        key,
        attempts: 0,
    };
    let mut resolved = None;
    loop {
        sending.persist().await?;
        match sending.under_one_key().await? {
            Settled::Answer(answer) => {
                return Ok(Answer {
                    conflict: resolved,
                    ..answer
                });
            }
            Settled::Conflict(conflict) => {
                // Once: a second conflict means that the keys are not what the caller thinks they are.
                let next = if resolved.is_none() {
                    sending.request.on_conflict.resolve(&conflict)
                } else {
                    None
                };
                let Some(next) = next else {
                    return Err(Error::Conflict {
                        key: sending.key,
                        attempts: sending.attempts,
                        conflict,
                    });
                };
                tracing::info!(key = %sending.key, %next, "the key stands for another request; sending under the next one");
                sending.key = next;
                resolved = Some(conflict);
            }
        }
    }
}

/// A request on its way.
struct Sending {
    request: Request,
    url: Url,
    until: Instant,
    key: Key,
    attempts: u32,
}

/// How the tries under one key end, if not with an error.
enum Settled {
    Answer(Answer),
    Conflict(Box<Conflict>),
}

/// How one try ends.
enum Step {
    Settled(Settled),
    Again(Option<Duration>, Error),
    Never(Error),
}

impl Sending {
    async fn persist(&mut self) -> Result<(), Error> {
        let Some(hook) = self.request.persist.as_mut() else {
            return Ok(());
        };
        let stored = timeout_at(self.until, hook.store(self.key.clone())).await;
        stored
            .map_err(BoxError::from)
            .flatten()
            .map_err(|source| Error::NotPersisted {
                key: self.key.clone(),
                attempts: self.attempts,
                source,
            })
    }

    async fn under_one_key(&mut self) -> Result<Settled, Error> {
        let limits = self.request.limits;
        let mut last = None;
        let mut failed = 0;
        while !self.left().is_zero() {
            self.attempts += 1;
            let (after, error) = match self.step().await {
                Step::Settled(settled) => return Ok(settled),
                Step::Never(error) => return Err(error),
                Step::Again(after, error) => (after, error),
            };
            failed += 1;
            let left = self.left();
            let wait = limits.backoff.wait(failed, after, random_part());
            if self.attempts >= limits.attempts && !left.is_zero() {
                return Err(error);
            }
            last = Some(Box::new(error));
            // The answer would come too late, so nobody is kept waiting for it.
            if wait >= left {
                break;
            }
            tracing::debug!(key = %self.key, attempts = self.attempts, ?wait, ?last, "trying again");
            sleep(wait).await;
        }
        Err(Error::DeadlineExceeded {
            key: self.key.clone(),
            attempts: self.attempts,
            last,
        })
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    async fn step(&self) -> Step {
        let span = self.request.limits.timeout_per_try.min(self.left());
        let received = timeout(span, attempt(&self.request, &self.url, &self.key))
            .await
            .unwrap_or_else(|_| {
                let late = io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no answer within {span:?}"),
                );
                Err(Failure::Broken(late.into()))
            });
        let (key, attempts) = (self.key.clone(), self.attempts);
        match received {
            Ok(received) => self.means(received),
            Err(Failure::Broken(source)) => Step::Again(
                None,
                Error::Unreachable {
                    key,
                    attempts,
                    source,
                },
            ),
            Err(Failure::TooLarge(status)) => {
                let bytes_max = self.request.limits.response_bytes_max;
                Step::Never(Error::TooLarge {
                    key,
                    attempts,
                    status,
                    bytes_max,
                })
            }
            Err(Failure::Unsendable(error)) => {
                Step::Never(Error::malformed("making the request", error))
            }
        }
    }

    fn means(&self, received: Received) -> Step {
        let (key, attempts) = (self.key.clone(), self.attempts);
        match judge(&received, SystemTime::now()) {
            Verdict::Take { replayed } => {
                let Received {
                    status,
                    headers,
                    body,
                } = received;
                let conflict = None;
                Step::Settled(Settled::Answer(Answer {
                    status,
                    headers,
                    body,
                    replayed,
                    conflict,
                    attempts,
                    key,
                }))
            }
            Verdict::Conflict(refusal) => {
                Step::Settled(Settled::Conflict(Box::new(Conflict::of(&refusal, &key))))
            }
            Verdict::Again(after, refusal) => Step::Again(
                after,
                Error::Refused {
                    key,
                    attempts,
                    refusal: Box::new(refusal),
                },
            ),
            Verdict::Never(refusal) => Step::Never(Error::Refused {
                key,
                attempts,
                refusal: Box::new(refusal),
            }),
            Verdict::InDoubt(refusal) => Step::Never(Error::InDoubt {
                key,
                attempts,
                refusal: Box::new(refusal),
            }),
            Verdict::Redirected(location) => Step::Never(Error::Redirected {
                key,
                attempts,
                status: received.status,
                location,
            }),
        }
    }
}

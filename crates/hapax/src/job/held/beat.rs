//! The heartbeat of a lease: renews it three times within its span, and says when that did not work in time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hapax_core::job::{Act, Deed, Done, Fence, On};
use tokio::time::Instant;

use super::Inner;
use crate::job::pause::spread;

/// What came of one heartbeat.
enum Beat {
    Renewed(Instant),
    Missed,
    Over,
}

/// Renews until the last holder is gone, the job has ended or the lease is lost. `left` is what the lease has at
/// first.
pub(super) async fn beat(held: Weak<Inner>, ttl: Duration, left: Duration) {
    // The worker has to stop before the lease runs out, so the last tenth is not used.
    let usable = |span: Duration| span.saturating_sub(span / 10);
    let mut until = Instant::now() + usable(left);
    let mut next = Instant::now() + spread(left.min(ttl) / 3);
    loop {
        tokio::time::sleep_until(next.min(until)).await;
        let Some(held) = held.upgrade() else { return };
        if Instant::now() >= until {
            held.lose(&"it could not be renewed in time");
            return;
        }
        let beat = tokio::time::timeout_at(until, renew(&held, ttl));
        match beat.await.unwrap_or(Beat::Missed) {
            Beat::Renewed(asked) => {
                until = asked + usable(ttl);
                next = asked + spread(ttl / 3);
            }
            Beat::Missed => next = Instant::now() + spread(ttl / 20),
            Beat::Over => return,
        }
    }
}

async fn renew(held: &Arc<Inner>, ttl: Duration) -> Beat {
    let _alone = held.gate.write().await;
    if held.has_ended.load(Ordering::SeqCst) {
        return Beat::Over;
    }
    let act = Act {
        on: On::Job(held.job.id.clone()),
        fence: Fence::of(&held.owner, held.job.epoch),
        deed: Deed::Renew { ttl },
    };
    let asked = Instant::now();
    let answers = held.queue.apply(held.job.tenant, vec![act]).await;
    match answers.map(|answers| answers.into_iter().next()) {
        Ok(Some(Ok(Done::Job(_) | Done::Op(..) | Done::Begun(..)))) => Beat::Renewed(asked),
        Ok(Some(Err(refusal))) => {
            held.lose(&refusal);
            Beat::Over
        }
        Ok(None) => Beat::Missed,
        Err(error) => {
            tracing::warn!(job = %held.job.id, %error, "a lease was not renewed; trying again");
            Beat::Missed
        }
    }
}

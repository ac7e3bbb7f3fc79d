//! Jobs planned and drained. Only in a store that is thrown away: the history of jobs is kept.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hapax_core::Tenant;
use hapax_core::job::{Act, Ask, Deed, Fence, JobKind, NewJob, On, Queue, State};

use super::{Found, rate};

const BATCH: usize = 500;
const JOBS_MAX: usize = 20_000;

pub(super) async fn measure(
    queue: &dyn Queue,
    tenant: Tenant,
    time: Duration,
) -> Result<Vec<Found>> {
    let begun = Instant::now();
    let mut planned = 0;
    while begun.elapsed() < time && planned < JOBS_MAX {
        let jobs = (planned..planned + BATCH)
            .map(|n| {
                let id = n.to_string();
                NewJob::new(
                    JobKind::new("bench")?,
                    "bench",
                    &id,
                    "https://bench.invalid/",
                )
            })
            .collect::<Result<Vec<_>, _>>()?;
        planned += queue.plan(tenant, jobs).await?.len();
    }
    let enqueued = rate(planned, begun);
    let begun = Instant::now();
    let mut drained = 0;
    loop {
        let ask = Ask {
            limit: BATCH,
            ..Ask::by("bench")
        };
        let jobs = queue.lease(tenant, ask).await?;
        if jobs.is_empty() {
            break;
        }
        let advance = |job: &hapax_core::job::Job, to: State| Act {
            on: On::Job(job.id.clone()),
            fence: Fence::of("bench", job.epoch),
            deed: Deed::Advance {
                to,
                allowed_from: None,
                result: None,
            },
        };
        let acts = jobs
            .iter()
            .flat_map(|job| [State::Finalized, State::Indexed].map(|to| advance(job, to)))
            .collect();
        for done in queue.apply(tenant, acts).await? {
            ensure!(done.is_ok(), "a job was not ended: {done:?}");
        }
        drained += jobs.len();
    }
    ensure!(
        drained == planned,
        "{drained} of {planned} jobs were drained"
    );
    let found = |what, rate| Found {
        what,
        at_once: BATCH,
        rate,
        unit: "jobs",
        took_us: None,
    };
    Ok(vec![
        found("jobs, planned", enqueued),
        found("jobs, leased and ended", rate(drained, begun)),
    ])
}

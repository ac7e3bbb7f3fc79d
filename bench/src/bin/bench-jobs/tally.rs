//! What a turn cost, and the medians of all turns.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use hapax_bench::report::{Report, Row};
use rustix::time::{ClockId, clock_gettime};

use crate::database::Server;

/// The cost of one job, in one turn.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall_s: f64,
    pub(crate) cpu_us: f64,
    pub(crate) database_cpu_us: Option<f64>,
    pub(crate) peak_bytes: Option<u64>,
}

impl Cost {
    /// Runs `work` in this process and divides what it cost by `count`.
    pub(crate) async fn of<F: Future<Output = Result<()>>>(
        count: usize,
        server: Option<&Server>,
        work: impl FnOnce() -> F,
    ) -> Result<Self> {
        let database = server.map(Server::cpu).transpose()?;
        let (cpu, begun) = (own_cpu(), Instant::now());
        work().await?;
        let (wall, cpu) = (begun.elapsed(), own_cpu().saturating_sub(cpu));
        let database = spent(server, database)?;
        Ok(Self::each(count, wall, cpu, database, None))
    }

    /// Divides what everything cost by `count`.
    pub(crate) fn each(
        count: usize,
        wall: Duration,
        cpu: Duration,
        database: Option<Duration>,
        peak_bytes: Option<u64>,
    ) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
        let count = count as f64;
        Self {
            wall_s: wall.as_secs_f64() / count,
            cpu_us: cpu.as_secs_f64() * 1e6 / count,
            database_cpu_us: database.map(|cpu| cpu.as_secs_f64() * 1e6 / count),
            peak_bytes,
        }
    }
}

/// What the database used since `before`.
pub(crate) fn spent(server: Option<&Server>, before: Option<Duration>) -> Result<Option<Duration>> {
    let after = server.map(Server::cpu).transpose()?;
    Ok(after
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before)))
}

fn own_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(spent.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

/// The costs of all turns, by subject and case, in the order in which they first came.
#[derive(Default)]
pub(crate) struct Costs {
    order: Vec<(&'static str, &'static str)>,
    all: BTreeMap<(&'static str, &'static str), Vec<Cost>>,
}

impl Costs {
    pub(crate) fn add(&mut self, subject: &'static str, case: &'static str, cost: Cost) {
        eprintln!(
            "  {subject:<24} {case:<30} {:>8.0} jobs/s {:>8.1} µs CPU {:>8.1} µs database",
            1.0 / cost.wall_s,
            cost.cpu_us,
            cost.database_cpu_us.unwrap_or_default()
        );
        let key = (subject, case);
        if !self.order.contains(&key) {
            self.order.push(key);
        }
        self.all.entry(key).or_default().push(cost);
    }

    /// One row for each, of medians.
    pub(crate) fn report(&self, report: &mut Report) {
        let mut keys = self.order.clone();
        keys.sort_by_key(|(_, case)| *case);
        for key in keys {
            let costs = &self.all[&key];
            let of = |value: fn(&Cost) -> Option<f64>| median(costs.iter().filter_map(value));
            report.row(Row {
                subject: key.0.to_owned(),
                case: key.1.to_owned(),
                rate: of(|cost| Some(1.0 / cost.wall_s)).unwrap_or_default(),
                unit: "jobs".to_owned(),
                cpu_us: of(|cost| Some(cost.cpu_us)),
                database_cpu_us: of(|cost| cost.database_cpu_us),
                peak_bytes: costs.iter().filter_map(|cost| cost.peak_bytes).max(),
                ..Row::default()
            });
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

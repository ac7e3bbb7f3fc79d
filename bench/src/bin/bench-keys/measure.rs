//! Measures subjects in turn, round after round, and keeps the median of each figure.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use hapax_bench::cpu::Tree;
use hapax_bench::report::{Report, Row};

use crate::load::{Keys, Load, Names};
use crate::process::Server;
use crate::talk::Talk;

/// One server under measurement, or several that share the load.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) servers: Vec<Server>,
    pub(crate) talk: Talk,
    /// The database whose CPU is counted beside the server's.
    pub(crate) database: Option<Tree>,
}

/// One case: what is sent, how often and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) keys: Keys,
    pub(crate) connections: usize,
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
}

impl Subject {
    /// CPU of all its servers.
    fn cpu(&self) -> Result<Duration> {
        self.servers.iter().map(|server| server.tree().cpu()).sum()
    }

    /// The most memory that any of its servers had.
    fn peak_memory(&self) -> Result<u64> {
        let each = self
            .servers
            .iter()
            .map(|server| server.tree().peak_memory());
        let each: Vec<u64> = each.collect::<Result<_>>()?;
        each.into_iter().max().context("there is no server")
    }
}

impl Case {
    pub(crate) fn name(self) -> String {
        let plural = if self.connections == 1 { "" } else { "s" };
        format!(
            "{}, {} connection{plural}",
            self.keys.as_str(),
            self.connections
        )
    }
}

/// The figures of one round.
#[derive(Clone, Copy, Debug)]
struct Sample {
    rate: f64,
    cpu_us: f64,
    database_cpu_us: Option<f64>,
    p50_us: f64,
    p99_us: f64,
}

/// Measures all subjects, one after the other in every round, and adds a row for each. The case may differ by the
/// place of the subject.
///
/// # Errors
/// When a server answers wrongly or is gone.
pub(crate) async fn case(
    report: &mut Report,
    subjects: &[&Subject],
    names: &Rc<Names>,
    case: impl Fn(usize) -> Case,
) -> Result<()> {
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); subjects.len()];
    for _ in 0..case(0).rounds {
        for (at, subject) in subjects.iter().enumerate() {
            samples[at].push(sample(subject, names, case(at)).await?);
        }
    }
    for (at, subject) in subjects.iter().enumerate() {
        report.row(row(subject, case(at), &samples[at])?);
    }
    Ok(())
}

async fn sample(subject: &Subject, names: &Rc<Names>, case: Case) -> Result<Sample> {
    let load = Load {
        addresses: subject
            .servers
            .iter()
            .map(|server| server.address)
            .collect(),
        talk: subject.talk,
        keys: case.keys,
        connections: case.connections,
    };
    let recorded = load.prepare(names).await?;
    let cpu = subject.cpu()?;
    let database = subject.database.map(Tree::cpu).transpose()?;
    let mut seen = load.run(names, recorded, case.time).await?;
    let cpu = subject.cpu()?.saturating_sub(cpu);
    let database = match (subject.database, database) {
        (Some(tree), Some(before)) => Some(tree.cpu()?.saturating_sub(before)),
        _ => None,
    };
    anyhow::ensure!(seen.operations > 0, "{} answered nothing", subject.name);
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 requests")]
    let operations = seen.operations as f64;
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / operations;
    Ok(Sample {
        rate: operations / seen.took.as_secs_f64(),
        cpu_us: each(cpu),
        database_cpu_us: database.map(each),
        p50_us: seen.latencies.percentile(0.50).unwrap_or_default(),
        p99_us: seen.latencies.percentile(0.99).unwrap_or_default(),
    })
}

fn row(subject: &Subject, case: Case, samples: &[Sample]) -> Result<Row> {
    let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
    let database: Vec<f64> = samples
        .iter()
        .filter_map(|one| one.database_cpu_us)
        .collect();
    Ok(Row {
        subject: subject.name.to_owned(),
        case: case.name(),
        rate: of(|one| one.rate),
        unit: "requests".to_owned(),
        cpu_us: Some(of(|one| one.cpu_us)),
        database_cpu_us: (!database.is_empty()).then(|| median(database)),
        p50_us: Some(of(|one| one.p50_us)),
        p99_us: Some(of(|one| one.p99_us)),
        peak_bytes: Some(subject.peak_memory()?),
    })
}

/// The middle one, or the lower of the two in the middle.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[(figures.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_round() {
        assert!((median(vec![3.0, 900.0, 2.0]) - 3.0).abs() < f64::EPSILON);
    }
}

//! `bench-plot`: draws what the suites found, as SVG for README. It measures nothing.

mod draw;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use hapax_bench::report::{Report, Row};

use draw::{Bars, Lines};

/// Draws what the suites found.
#[derive(Parser, Debug)]
struct Cli {
    /// Where the suites wrote their results.
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
    /// Where the drawings go.
    #[arg(long, default_value = "bench/plots")]
    plots: PathBuf,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    std::fs::create_dir_all(&cli.plots)?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(&cli.results)
        .with_context(|| format!("reading {}; run a suite first", cli.results.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let report: Report =
            serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
        for (name, svg) in drawings(&report) {
            let path = cli.plots.join(format!("{name}.svg"));
            std::fs::write(&path, svg)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// The drawings of one suite, by name.
fn drawings(report: &Report) -> Vec<(String, String)> {
    match report.suite.as_str() {
        "keys" => keys(report),
        "sizes" => vec![("sizes".to_owned(), sizes(report))],
        "nodes" => vec![("nodes-rate".to_owned(), nodes(report))],
        _ => by_case(report),
    }
}

/// CPU of a request by subject, and rates by the number of connections.
fn keys(report: &Report) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for kind in ["fresh", "replay"] {
        let case = format!("{kind}, 64 connections");
        let bars = report
            .rows
            .iter()
            .filter(|row| row.case == case)
            .filter_map(|row| {
                let cpu = row.cpu_us?;
                Some((row.subject.clone(), cpu, row.database_cpu_us.unwrap_or(0.0)))
            })
            .collect();
        let title = match kind {
            "fresh" => "CPU of a request with a fresh key",
            _ => "CPU of a replay",
        };
        all.push((
            format!("keys-cpu-{kind}"),
            Bars {
                title: title.to_owned(),
                unit: "µs, 64 connections; light: the database's share".to_owned(),
                subjects: bars,
            }
            .svg(),
        ));
    }
    let mut series: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for row in &report.rows {
        if let Some(connections) = connections(row, "fresh") {
            let points = series.entry(&row.subject).or_default();
            points.push((connections, row.rate));
        }
    }
    let lines = Lines {
        title: "Requests with fresh keys per second".to_owned(),
        across: "connections".to_owned(),
        series: series
            .into_iter()
            .map(|(name, points)| (name.to_owned(), points))
            .collect(),
    };
    all.push(("keys-rate".to_owned(), lines.svg()));
    all
}

/// The number of connections of a row of this kind.
fn connections(row: &Row, kind: &str) -> Option<f64> {
    let rest = row.case.strip_prefix(kind)?.strip_prefix(", ")?;
    rest.split(' ').next()?.parse().ok()
}

/// CPU of a request by the number of keys that were stored before.
fn sizes(report: &Report) -> String {
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in &report.rows {
        let stored = row.subject.rsplit(", ").next().and_then(|words| {
            let number = words.strip_suffix(" stored")?;
            number.parse::<f64>().ok()
        });
        let kind = row.case.split(',').next().unwrap_or_default();
        let store = if row.database_cpu_us.is_some() {
            "PostgreSQL"
        } else {
            "SQLite"
        };
        if let (Some(stored), Some(cpu)) = (stored, row.cpu_us) {
            let points = series.entry(format!("{kind}, {store}")).or_default();
            points.push((stored, cpu + row.database_cpu_us.unwrap_or(0.0)));
        }
    }
    Lines {
        title: "CPU of a request by the number of stored keys, database included, µs".to_owned(),
        across: "stored keys".to_owned(),
        series: series.into_iter().collect(),
    }
    .svg()
}

/// Rates by the number of nodes.
fn nodes(report: &Report) -> String {
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in &report.rows {
        let Some((nodes, front)) = row.subject.split_once(", ") else {
            continue;
        };
        let count = nodes.split(' ').next().and_then(|count| count.parse().ok());
        if let Some(count) = count {
            let points = series.entry(front.to_owned()).or_default();
            points.push((count, row.rate));
        }
    }
    Lines {
        title: "Fresh keys per second by the number of nodes on one PostgreSQL".to_owned(),
        across: "nodes".to_owned(),
        series: series.into_iter().collect(),
    }
    .svg()
}

/// One drawing per case: the rate of each subject.
fn by_case(report: &Report) -> Vec<(String, String)> {
    let mut cases: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &report.rows {
        cases.entry(&row.case).or_default().push(row);
    }
    cases
        .into_iter()
        .filter(|(_, rows)| rows.len() > 1)
        .map(|(case, rows)| {
            let bars = Bars {
                title: format!("{}: {case}", report.suite),
                unit: format!("{} per second", rows[0].unit),
                subjects: rows
                    .iter()
                    .map(|row| (row.subject.clone(), row.rate, 0.0))
                    .collect(),
            };
            (file_name(&report.suite, case), bars.svg())
        })
        .collect()
}

fn file_name(suite: &str, case: &str) -> String {
    let plain: String = case
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    format!("{suite}-{}", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_of_a_case_has_a_bar_and_every_kind_a_drawing() {
        let mut report = Report::begin("keys", true);
        for (subject, cpu_us) in [("bare", 10.0), ("a < b & c", 30.0)] {
            report.rows.push(Row {
                subject: subject.to_owned(),
                case: "fresh, 64 connections".to_owned(),
                rate: 100.0,
                cpu_us: Some(cpu_us),
                ..Row::default()
            });
        }
        let drawn = drawings(&report);
        let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["keys-cpu-fresh", "keys-cpu-replay", "keys-rate"]);
        assert!(drawn[0].1.contains(">bare<") && drawn[0].1.contains(">a &lt; b &amp; c<"));
        assert_eq!(drawn[0].1.matches("class=\"bar\"").count(), 2);
    }

    #[test]
    fn every_number_of_nodes_is_a_point_of_its_front() {
        let mut report = Report::begin("nodes", true);
        for subject in ["1 node, layer", "2 nodes, layer", "1 node, remote API"] {
            report.rows.push(Row {
                subject: subject.to_owned(),
                rate: 100.0,
                ..Row::default()
            });
        }
        let drawn = drawings(&report);
        assert_eq!(drawn[0].0, "nodes-rate");
        assert!(drawn[0].1.contains(">layer<") && drawn[0].1.contains(">remote API<"));
    }

    #[test]
    fn a_case_becomes_a_file_name() {
        assert_eq!(file_name("hash", "5 MB, shuffled"), "hash-5-mb-shuffled");
    }
}

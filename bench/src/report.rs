//! What a suite found: rows of figures, ratios with the value we want, written as JSON and as tables.

use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

/// Everything one run of a suite found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the suite, and of its file.
    pub suite: String,
    /// When the run ended, in UTC.
    pub taken_at: String,
    /// Where it ran.
    pub machine: Machine,
    /// Whether this was the small run that only checks that the programs work.
    pub check: bool,
    /// One row per subject and case.
    pub rows: Vec<Row>,
    /// What the rows say, compared.
    pub ratios: Vec<Ratio>,
}

/// Where a run took place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that the run could use.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Programs waiting for a core when the run began; above `cores` the machine was busy.
    pub load_at_start: f64,
}

/// The figures of one subject in one case. Costs are per operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// What was measured: `bare`, `layer sqlite`, `curl`…
    pub subject: String,
    /// Under what: `fresh, 64 connections`, `5 MB`…
    pub case: String,
    /// Operations per second.
    pub rate: f64,
    /// What an operation is: `requests`, `jobs`, `MB`…
    pub unit: String,
    /// CPU of the program itself, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<f64>,
    /// CPU of the database beside it, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_cpu_us: Option<f64>,
    /// Half of the operations took no longer, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 99 of 100 operations took no longer, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// The most memory the program had, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
}

/// Two figures compared, and the value we want.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// What is compared, in words.
    pub name: String,
    /// The quotient that was found.
    pub value: f64,
    /// The value we want.
    pub want: Want,
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

impl Ratio {
    /// Whether the value is what we want.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.want {
            Want::AtLeast(least) => self.value >= least,
            Want::AtMost(most) => self.value <= most,
        }
    }
}

impl Report {
    /// An empty report that remembers where and when it began.
    #[must_use]
    pub fn begin(suite: &str, check: bool) -> Self {
        Self {
            suite: suite.to_owned(),
            taken_at: String::new(),
            machine: Machine::here(),
            check,
            rows: Vec::new(),
            ratios: Vec::new(),
        }
    }

    /// Adds a row and prints it, so that a person sees the run go on.
    pub fn row(&mut self, row: Row) {
        eprintln!(
            "{:<28} {:<34} {:>12} {}/s{}",
            row.subject,
            row.case,
            short(row.rate),
            row.unit,
            row.cpu_us
                .map_or_else(String::new, |cpu| format!("  {} µs CPU", short(cpu)))
        );
        self.rows.push(row);
    }

    /// Adds a ratio.
    pub fn ratio(&mut self, name: impl Into<String>, value: f64, want: Want) {
        self.ratios.push(Ratio {
            name: name.into(),
            value,
            want,
        });
    }

    /// The row of a subject in a case.
    ///
    /// # Errors
    /// When there is none: a ratio must not be made of something that was not measured.
    pub fn find(&self, subject: &str, case: &str) -> Result<&Row> {
        self.rows
            .iter()
            .find(|row| row.subject == subject && row.case == case)
            .with_context(|| format!("{} did not measure {subject}, {case}", self.suite))
    }

    /// Prints the tables and writes `FOLDER/SUITE.json`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self, folder: &Path) -> Result<()> {
        self.taken_at = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%MZ")
            .to_string();
        println!("{}\n{}", self.figures(), self.comparison());
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}.json", self.suite));
        std::fs::write(&path, serde_json::to_string_pretty(&self)? + "\n")
            .with_context(|| format!("writing {}", path.display()))
    }

    fn figures(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([
            "subject",
            "case",
            "per second",
            "of",
            "CPU µs",
            "database µs",
            "p50 µs",
            "p99 µs",
            "peak MB",
        ]);
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
        for row in &self.rows {
            table.add_row([
                row.subject.clone(),
                row.case.clone(),
                short(row.rate),
                row.unit.clone(),
                optional(row.cpu_us),
                optional(row.database_cpu_us),
                optional(row.p50_us),
                optional(row.p99_us),
                row.peak_bytes
                    .map_or_else(|| "-".to_owned(), |bytes| (bytes / 1_000_000).to_string()),
            ]);
        }
        right_align(&mut table, &[2, 4, 5, 6, 7, 8]);
        table
    }

    fn comparison(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(["ratio", "found", "wanted", ""]);
        for ratio in &self.ratios {
            let wanted = match ratio.want {
                Want::AtLeast(least) => format!("≥ {least}"),
                Want::AtMost(most) => format!("≤ {most}"),
            };
            let verdict = match (self.check, ratio.is_met()) {
                (true, _) => "not judged",
                (false, true) => "met",
                (false, false) => "MISSED",
            };
            table.add_row([
                &ratio.name,
                &format!("{:.2}", ratio.value),
                &wanted,
                verdict,
            ]);
        }
        right_align(&mut table, &[1, 2]);
        table
    }
}

impl Machine {
    fn here() -> Self {
        let processor = std::fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("model name"))?;
                Some(line.split_once(": ")?.1.to_owned())
            })
            .unwrap_or_else(|| "unknown".to_owned());
        let load_at_start = std::fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split(' ').next()?.parse().ok())
            .unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor,
            load_at_start,
        }
    }
}

fn right_align(table: &mut Table, columns: &[usize]) {
    for at in columns {
        if let Some(column) = table.column_mut(*at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A figure with three digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_something_unmeasured_is_an_error() {
        let mut report = Report::begin("keys", true);
        assert!(report.find("bare", "fresh").is_err());
        report.rows.push(Row {
            subject: "bare".to_owned(),
            case: "fresh".to_owned(),
            ..Row::default()
        });
        assert!(report.find("bare", "fresh").is_ok());
    }

    #[test]
    fn a_ratio_is_met_on_the_right_side_of_its_bound() {
        let ratio = |value, want| Ratio {
            name: String::new(),
            value,
            want,
        };
        assert!(ratio(5.0, Want::AtLeast(5.0)).is_met());
        assert!(!ratio(4.9, Want::AtLeast(5.0)).is_met());
        assert!(ratio(1.3, Want::AtMost(1.3)).is_met());
        assert!(!ratio(1.4, Want::AtMost(1.3)).is_met());
    }
}

//! How well articles are found on real pages. The pages are not part of the project: `HAPAX_CORPUS` names the folder
//! with `ground-truth.json` and `html/*.html.gz` of the article extraction benchmark.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use hapax_intake::webpage::article;
use serde_json::Value;

use crate::text;

/// The share of shingles that are right, too many and missing, as the benchmark counts them.
#[derive(Default)]
struct Shares {
    right: f64,
    extra: f64,
    missing: f64,
}

impl Shares {
    fn precision(&self) -> f64 {
        self.right / (self.right + self.extra)
    }

    fn recall(&self) -> f64 {
        self.right / (self.right + self.missing)
    }

    fn f1(&self) -> f64 {
        2.0 * self.right / (2.0 * self.right + self.extra + self.missing)
    }
}

#[test]
#[ignore = "needs HAPAX_CORPUS, a folder of real pages"]
fn articles_are_found_at_least_as_well_as_when_this_was_chosen() {
    let folder = std::env::var_os("HAPAX_CORPUS").expect("HAPAX_CORPUS names the folder");
    let folder = Path::new(&folder);
    let truth = fs::read_to_string(folder.join("ground-truth.json")).unwrap();
    let truth: HashMap<String, Value> = serde_json::from_str(&truth).unwrap();
    let mut sum = Shares::default();
    for (name, page) in &truth {
        let file = File::open(folder.join(format!("html/{name}.html.gz"))).unwrap();
        let mut html = Vec::new();
        GzDecoder::new(file).read_to_end(&mut html).unwrap();
        let found = article(&String::from_utf8_lossy(&html)).unwrap();
        let shares = compare(text(&page["articleBody"]), &found.text);
        if shares.f1() < 0.8 {
            println!("{:.3} {}", shares.f1(), page["url"]);
        }
        sum.right += shares.right;
        sum.extra += shares.extra;
        sum.missing += shares.missing;
    }
    println!(
        "{} pages: precision {:.3}, recall {:.3}, F1 {:.3}",
        truth.len(),
        sum.precision(),
        sum.recall(),
        sum.f1()
    );
    assert!(sum.f1() >= 0.95, "{}", sum.f1());
}

fn compare(truth: &str, found: &str) -> Shares {
    let (truth, found) = (shingles(truth), shingles(found));
    let mut shares = Shares::default();
    for (shingle, count) in &truth {
        let there = found.get(shingle).copied().unwrap_or_default();
        shares.right += f64::from(there.min(*count));
        shares.missing += f64::from(count.saturating_sub(there));
    }
    for (shingle, count) in &found {
        let wanted = truth.get(shingle).copied().unwrap_or_default();
        shares.extra += f64::from(count.saturating_sub(wanted));
    }
    let all = shares.right + shares.extra + shares.missing;
    if all > 0.0 {
        shares.right /= all;
        shares.extra /= all;
        shares.missing /= all;
    }
    shares
}

/// Every four words in a row, with how often they stand there.
fn shingles(text: &str) -> HashMap<Vec<&str>, u32> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let mut shingles = HashMap::new();
    for shingle in words.windows(words.len().clamp(1, 4)) {
        *shingles.entry(shingle.to_vec()).or_default() += 1;
    }
    shingles
}

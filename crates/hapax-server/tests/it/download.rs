//! `hapax download` from outside: a hostile server, kill -9, and what is on disk in the end.

pub(crate) mod hostile;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::fixture::hapax;
use hostile::{Hostile, Page, Temper};

const TEMPERS: [Temper; 9] = [
    Temper::Honest,
    Temper::Broken,
    Temper::Busy,
    Temper::Moved,
    Temper::Cut,
    Temper::Changes,
    Temper::Short,
    Temper::NoHead,
    Temper::NoRanges,
];

/// A manifest, its server, and the folders of one run.
struct Case {
    folder: tempfile::TempDir,
    hostile: Hostile,
    pages: HashMap<String, Page>,
}

impl Case {
    fn new(pages: HashMap<String, Page>) -> Self {
        let hostile = Hostile::start(pages.clone());
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut names: Vec<&String> = pages.keys().collect();
        names.sort();
        let line = |name: &&String| {
            let url = format!("http://{}{name}", hostile.address);
            json!({"work_id": "w", "artifact_id": &name[1..], "canonical_url": url}).to_string()
                + "\n"
        };
        let manifest: String = names.iter().map(line).collect();
        std::fs::write(folder.path().join("manifest.jsonl"), manifest).unwrap();
        Self {
            folder,
            hostile,
            pages,
        }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn arguments(&self) -> Vec<String> {
        let at = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let words = [
            "download",
            &at("manifest.jsonl"),
            "--out",
            &at("out"),
            "--data",
            &at("data"),
        ];
        let more = ["--allow-private-addresses", "--concurrency", "8", "--json"];
        words.into_iter().chain(more).map(str::to_owned).collect()
    }

    fn start(&self) -> Child {
        hapax()
            .args(self.arguments())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Runs it to its end: whether it succeeded, and what it printed.
    fn finish(&self) -> (bool, Value) {
        let output = hapax().args(self.arguments()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let report = serde_json::from_str(&printed)
            .unwrap_or_else(|why| panic!("{why}: {printed:?} {output:?}"));
        (output.status.success(), report)
    }

    /// The lengths of the parts on disk, by the page that they belong to.
    fn parts(&self) -> HashMap<String, u64> {
        let pages: HashMap<String, &String> = self
            .pages
            .keys()
            .map(|page| (self.job_id(page), page))
            .collect();
        let parts = std::fs::read_dir(self.out().join(".staging"));
        let mut lengths = HashMap::new();
        for part in parts.into_iter().flatten().flatten() {
            let name = part.file_name().into_string().unwrap();
            let is_part = Path::new(&name)
                .extension()
                .is_some_and(|end| end == "part");
            if let Some(page) = pages
                .get(name.split('.').next().unwrap())
                .filter(|_| is_part)
            {
                // One that was just put in its place is no part any more.
                let Ok(metadata) = part.metadata() else {
                    continue;
                };
                let length = metadata.len();
                let longest = lengths.entry((*page).clone()).or_insert(0);
                *longest = length.max(*longest);
            }
        }
        lengths
    }

    /// The id that the page's job has, by the published rule.
    fn job_id(&self, page: &str) -> String {
        let url = format!("http://{}{page}", self.hostile.address);
        let preimage = format!(
            r#"{{"artifact_id":"{}","kind":"JOB","role":"artifact","url":"{url}","v":1,"work_id":"w"}}"#,
            &page[1..]
        );
        data_encoding::HEXLOWER.encode(&Sha256::digest(preimage))
    }

    fn check_files(&self) {
        for (name, page) in &self.pages {
            let file = self.out().join("files/w").join(&name[1..]);
            let sha256 = sha256(&file);
            assert_eq!(
                sha256,
                page.sha256(),
                "{name} is not what {:?} has",
                page.temper
            );
            let object = self.out().join("objects").join(&sha256[..2]).join(&sha256);
            let inode = |path: &Path| {
                std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap())
            };
            assert_eq!(
                inode(&file),
                inode(&object),
                "{name} is not a link to its object"
            );
        }
        let left: Vec<_> = std::fs::read_dir(self.out().join(".staging"))
            .unwrap()
            .flatten()
            .collect();
        assert!(left.is_empty(), "left in the staging folder: {left:?}");
    }
}

fn sha256(file: &Path) -> String {
    let mut hasher = Sha256::new();
    let mut opened =
        std::fs::File::open(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let mut some = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut opened, &mut some).unwrap() {
            0 => return data_encoding::HEXLOWER.encode(&hasher.finalize()),
            count => hasher.update(&some[..count]),
        }
    }
}

/// `count` small pages of every temper, every tenth with the content of another, and two large ones.
fn pages(count: u64, large: u64, slow: Duration) -> HashMap<String, Page> {
    let mut pages = HashMap::new();
    for index in 0..count {
        let temper = TEMPERS[usize::try_from(index).unwrap() % TEMPERS.len()];
        let (seed, temper) = if index % 10 == 9 {
            (7, Temper::Honest)
        } else {
            (1000 + index, temper)
        };
        let size = if seed == 7 { 5000 } else { 20_000 + index * 37 };
        pages.insert(format!("/page-{index}"), Page { temper, seed, size });
    }
    for index in 0..2 {
        let temper = Temper::Large(large / 3, slow);
        pages.insert(
            format!("/large-{index}"),
            Page {
                temper,
                seed: 90_000 + index,
                size: large + index,
            },
        );
    }
    pages
}

/// Kills it this many times, then lets it end, and checks everything from outside.
fn survives(count: u64, large: u64, kills: u32, pause: Duration) {
    // The large ones outlast the first kills, so that those come in the middle.
    let case = Case::new(pages(count, large, pause * 3));
    let mut peak_kb = 0;
    let mut killed = 0;
    // What was on disk at each kill, and how many requests there had been.
    let mut kept: Vec<(String, u64, usize)> = Vec::new();
    for round in 0..kills {
        let mut child = case.start();
        let until = Instant::now() + pause + pause / 4 * (round % 5);
        // Every second kill comes in the middle of a large one: those are taken up again last.
        let is_time = || {
            let is_large = |(page, length): (String, u64)| page.starts_with("/large") && length > 0;
            Instant::now() >= until && (round % 2 == 0 || case.parts().into_iter().any(is_large))
        };
        while !is_time() && child.try_wait().unwrap().is_none() {
            peak_kb = peak_kb.max(peak_memory_kb(child.id()));
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        if ended {
            break;
        }
        killed += 1;
        for (page, length) in case.parts() {
            let requests = case.hostile.gets(&page).len();
            kept.push((page, length, requests));
        }
    }
    let (is_good, report) = case.finish();
    assert!(is_good, "{report}");
    assert_eq!(report["failed"], 0, "{report}");
    let mut compared = 0;
    for (page, length, requests) in kept.iter().filter(|(page, ..)| page.starts_with("/large")) {
        for get in case.hostile.gets(page).iter().skip(*requests) {
            compared += 1;
            assert!(
                get.from >= *length,
                "{page}: {length} bytes were there, and it was asked from {}",
                get.from
            );
        }
    }
    assert!(compared > 0, "no large file was continued after a kill");
    case.check_files();
    let distinct: std::collections::HashSet<String> =
        case.pages.values().map(Page::sha256).collect();
    let objects = std::fs::read_dir(case.out().join("objects"))
        .unwrap()
        .flatten();
    let objects: usize = objects
        .map(|shelf| std::fs::read_dir(shelf.path()).unwrap().count())
        .sum();
    assert_eq!(objects, distinct.len(), "one object per content");
    assert!(peak_kb < 200 * 1024, "it took {peak_kb} KiB of memory");
    // Again: nothing is fetched, everything is there.
    let requests: usize = case
        .pages
        .keys()
        .map(|page| case.hostile.gets(page).len())
        .sum();
    let (is_good, report) = case.finish();
    assert!(is_good && report["already"] == case.pages.len(), "{report}");
    assert_eq!(
        requests,
        case.pages
            .keys()
            .map(|page| case.hostile.gets(page).len())
            .sum::<usize>()
    );
    println!(
        "{} files, {killed} kills, {compared} requests after a kill looked at, peak memory {peak_kb} KiB",
        case.pages.len()
    );
}

/// The most memory that the process ever had, as the system counts it; 0 when it is gone.
fn peak_memory_kb(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_manifest_from_a_hostile_server_ends_complete_though_it_is_killed_on_the_way() {
    survives(45, 12 << 20, 3, Duration::from_millis(700));
}

#[test]
#[ignore = "a soak of some minutes: ./test --soak"]
fn soak_five_hundred_files_from_a_hostile_server_end_complete_over_ten_kills() {
    survives(500, 300 << 20, 10, Duration::from_millis(2500));
}

#[test]
fn what_cannot_be_had_is_listed_with_the_reason_and_the_exit_code_says_so() {
    let case = Case::new(pages(3, 1 << 16, Duration::ZERO));
    let manifest = case.folder.path().join("manifest.jsonl");
    let mut text = std::fs::read_to_string(&manifest).unwrap();
    let url = format!("http://{}/nothing-here", case.hostile.address);
    text += &(json!({"work_id": "w", "artifact_id": "gone", "canonical_url": url}).to_string()
        + "\nnot json\n");
    std::fs::write(&manifest, text).unwrap();

    let (is_good, report) = case.finish();
    assert!(!is_good);
    assert_eq!(
        (&report["failed"], &report["bad_lines"], &report["total"]),
        (&json!(1), &json!(1), &json!(7))
    );
    let failures = report["failures"].as_array().unwrap();
    assert_eq!(failures[0]["line"], 7);
    assert_eq!(failures[1]["artifact_id"], "gone");
    assert!(
        failures[1]["error"].as_str().unwrap().contains("404"),
        "{report}"
    );
    case.check_files();

    // In a pipe: plain lines, no colours, and the exit code 1.
    let mut words = case.arguments();
    words.pop();
    let output = hapax().args(&words).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        printed.contains("gone") && printed.contains("404"),
        "{printed}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "hint: to try again what failed, add --retry-failed\n");
    assert!(!printed.contains('\u{1b}'));
}

#[test]
fn a_file_that_was_deleted_is_fetched_again_and_a_lost_link_is_made_again() {
    let case = Case::new(pages(4, 1 << 16, Duration::ZERO));
    assert!(case.finish().0);
    let file = case.out().join("files/w/page-0");
    let object = sha256(&file);
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(case.out().join("objects").join(&object[..2]).join(&object)).unwrap();
    std::fs::remove_file(case.out().join("files/w/page-1")).unwrap();
    let (is_good, report) = case.finish();
    assert!(is_good, "{report}");
    case.check_files();
}

#[test]
fn private_addresses_are_refused_unless_they_are_allowed() {
    let case = Case::new(pages(1, 1 << 16, Duration::ZERO));
    let words: Vec<String> = case
        .arguments()
        .into_iter()
        .filter(|word| word != "--allow-private-addresses")
        .collect();
    let output = hapax().args(&words).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["failed"], 3);
    assert!(
        report["failures"][0]["error"]
            .as_str()
            .unwrap()
            .contains("ssrf_blocked"),
        "{report}"
    );
    assert!(
        case.hostile.gets("/page-0").is_empty(),
        "it was asked nevertheless"
    );
    let output = hapax().args(&words[..words.len() - 1]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("add --allow-private-addresses"), "{said}");
    assert_eq!(said.matches("hint: ").count(), 1, "{said}");
    let (is_good, report) = case.finish();
    assert!(is_good, "now it is allowed: {report}");
    assert_eq!(
        report["bytes"],
        case.pages.values().map(|page| page.size).sum::<u64>()
    );
}

#[test]
fn two_runs_of_one_manifest_at_a_time_share_the_work() {
    let case = Case::new(pages(30, 4 << 20, Duration::ZERO));
    let other = case.start();
    let (is_good, report) = case.finish();
    assert!(is_good, "{report}");
    let other = other.wait_with_output().unwrap();
    assert!(other.status.success(), "{other:?}");
    case.check_files();
    for page in case.pages.keys().filter(|page| page.starts_with("/large")) {
        let begun = case
            .hostile
            .gets(page)
            .iter()
            .filter(|get| get.from == 0)
            .count();
        assert_eq!(begun, 1, "{page} was begun {begun} times");
    }
}

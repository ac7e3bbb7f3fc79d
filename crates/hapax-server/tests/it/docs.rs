//! The documentation, run: every command of the README, the guides and the operations page is executed as it stands, and
//! must print what the page shows. One test per page; a failure names the page, the line, the command and what it printed.

mod links;
mod named;
mod page;
mod shown;
mod stage;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hapax_effects::enrich::testing::{FakeLitellm, KEY};

use crate::fixture::{hapax, succeed};
use crate::postgres;
use page::{Shown, Step};
use stage::Stage;

/// Every page that is run, in the order of its number.
const PAGES: [&str; 16] = [
    "README.md",
    "docs/operations.md",
    "docs/guides/protect-an-api.md",
    "docs/guides/sidecar.md",
    "docs/guides/intents.md",
    "docs/guides/snapshots.md",
    "docs/guides/entries.md",
    "docs/guides/import-a-mailbox.md",
    "docs/guides/enrich.md",
    "docs/guides/download-a-corpus.md",
    "docs/guides/jobs.md",
    "docs/guides/encryption.md",
    "docs/guides/dashboard.md",
    "docs/guides/cors.md",
    "docs/guides/neighbours.md",
    "docs/guides/command-line.md",
];

/// How many blocks of all pages together may be shown and not run.
const CONSOLE_MAX: usize = 4;

pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap().to_owned()
}

/// The guides, as docs/README.md names them.
fn guides() -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(root().join("docs/guides"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == "md"))
        .map(|path| format!("guides/{}", path.file_name().unwrap().to_string_lossy()))
        .collect();
    found.sort();
    found
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|why| panic!("{page}: {why}"))
}

fn steps(page: &str) -> Vec<Step> {
    page::steps(&read(page)).unwrap_or_else(|wrong| panic!("\n{page}\n{}\n", wrong.join("\n")))
}

fn stage(page: &str) -> Stage {
    let place = PAGES.iter().position(|known| *known == page).unwrap();
    let program = hapax().get_program().to_owned();
    Stage::new(
        Path::new(&program),
        &read(page),
        u16::try_from(place).unwrap(),
    )
}

fn perform(page: &str, stage: &Stage) {
    let steps = steps(page);
    assert!(
        steps.iter().any(|step| matches!(step, Step::Run { .. })),
        "{page} has commands"
    );
    if let Err(why) = stage.run(&steps) {
        panic!("\n{page}, {why}\n");
    }
}

fn run(page: &str) {
    perform(page, &stage(page));
}

#[test]
fn the_readme_runs() {
    run("README.md");
}

#[test]
fn operations_run() {
    let page = "docs/operations.md";
    let database = postgres::empty_database();
    let (_, place) = database.split_once('@').unwrap();
    // A login belongs to the whole cluster: a second run must not meet the one of the first.
    let login = format!("hapax_login_{}", uuid::Uuid::new_v4().simple());
    let stage = stage(page)
        .replace("127.0.0.1:5432/hapax", place)
        .replace("hapax_login", &login);
    perform(page, &stage);
}

#[test]
fn the_guide_to_protecting_an_api_runs() {
    run("docs/guides/protect-an-api.md");
}

#[test]
fn the_guide_to_the_proxy_runs() {
    run("docs/guides/sidecar.md");
}

#[test]
fn the_guide_to_cors_runs() {
    run("docs/guides/cors.md");
}

#[test]
fn the_guide_to_neighbours_runs() {
    run("docs/guides/neighbours.md");
}

#[test]
fn the_guide_to_the_command_line_runs() {
    run("docs/guides/command-line.md");
}

#[test]
fn the_guide_to_intents_runs() {
    run("docs/guides/intents.md");
}

#[test]
fn the_guide_to_snapshots_runs() {
    run("docs/guides/snapshots.md");
}

#[test]
fn the_guide_to_entries_runs() {
    run("docs/guides/entries.md");
}

#[test]
fn the_guide_to_mailboxes_runs() {
    run("docs/guides/import-a-mailbox.md");
}

#[test]
fn the_guide_to_enrichment_runs() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    // In place of the LiteLLM that the page names.
    let fake = runtime.block_on(FakeLitellm::start()).unwrap();
    let page = "docs/guides/enrich.md";
    let stage = stage(page)
        .replace("http://127.0.0.1:4000/v1", &fake.base_url())
        .replace("sk-your-key", KEY);
    perform(page, &stage);
}

#[test]
fn the_guide_to_downloads_runs() {
    run("docs/guides/download-a-corpus.md");
}

#[test]
fn the_guide_to_jobs_runs() {
    run("docs/guides/jobs.md");
}

#[test]
fn the_guide_to_encryption_runs() {
    run("docs/guides/encryption.md");
}

#[test]
fn the_guide_to_the_dashboard_runs() {
    run("docs/guides/dashboard.md");
}

#[test]
fn the_commands_of_the_pages_on_errors_show_their_errors() {
    /// What stands in place of the code, on pages whose command ends the error or never gets as far as an answer.
    const OTHERWISE: [(&str, &str); 2] = [
        ("policy_disabled", "telegram_link_v1"),
        ("refusing_unauthenticated_bind", "--insecure-no-auth"),
    ];
    let run = |line, text: &str, shown: &str| Step::Run {
        line,
        text: text.to_owned(),
        shown: Some(Shown::Text(shown.to_owned())),
    };
    let mut all = vec![
        run(
            1,
            "hapax serve &\n",
            "listening on http://127.0.0.1:8088\n…\n",
        ),
        run(1, "TOKEN=$(cat hapax-data/token)\n", ""),
    ];
    let mut seen = 0;
    for entry in fs::read_dir(root().join("docs/errors")).unwrap() {
        let path = entry.unwrap().path();
        let code = path.file_stem().unwrap().to_string_lossy().into_owned();
        let steps = steps(&format!("docs/errors/{code}.md"));
        seen += steps.len();
        for step in steps {
            let Step::Run { line, text, .. } = step else {
                panic!("{code}: an error needs no file");
            };
            let otherwise = OTHERWISE.iter().find(|(page, _)| *page == code);
            let word = otherwise.map_or(code.as_str(), |(_, word)| word);
            // These commands may fail: that is what they show.
            let text = format!("set +e; {text}set -e\n");
            all.push(run(line, &text, &format!("…\n…{word}…\n…\n")));
        }
    }
    assert!(seen > 10, "{seen} commands");
    let program = hapax().get_program().to_owned();
    let stage = Stage::new(Path::new(&program), "127.0.0.1:8088", 30);
    if let Err(why) = stage.run(&all) {
        panic!("\n{why}\n");
    }
}

#[test]
fn no_guide_is_without_its_run() {
    for guide in guides() {
        let page = format!("docs/{guide}");
        assert!(PAGES.contains(&page.as_str()), "{page} is in no test");
    }
}

#[test]
fn few_blocks_are_shown_and_not_run() {
    let count: usize = PAGES
        .iter()
        .map(|page| read(page).matches("\n```console").count())
        .sum();
    assert!(count <= CONSOLE_MAX, "{count} blocks of console");
}

#[test]
fn the_readme_lists_the_commands_that_there_are() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("```usage\n").unwrap();
    let (listed, _) = rest.split_once("```").unwrap();
    let help = succeed(&["--help"]);
    let there: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // What a command is about may go on in lines that are indented further.
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(there.len() > 10, "{help}");
    let words: Vec<&str> = listed.split_whitespace().collect();
    let mut named: Vec<&str> = words
        .windows(2)
        .filter(|pair| pair[0] == "hapax")
        .map(|pair| pair[1])
        .collect();
    let mut there = there;
    named.sort_unstable();
    there.sort_unstable();
    assert_eq!(
        named, there,
        "the README on the left, `hapax --help` on the right"
    );
}

#[test]
fn the_pages_of_the_dashboard_that_are_named_are_there() {
    let app = root().join("crates/hapax-server/dashboard/app");
    let mut seen = BTreeSet::new();
    for page in PAGES {
        for rest in read(page).split("/ui/").skip(1) {
            let is_part = |c: char| c.is_ascii_lowercase();
            let name = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
            // `/ui/…` stands for all of them.
            if !name.is_empty() {
                let file = app.join(format!("page-{name}.js"));
                assert!(file.exists(), "{page} speaks of /ui/{name}");
                seen.insert(name.to_owned());
            }
        }
    }
    let there = fs::read_dir(app).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("page-")
    });
    assert_eq!(seen.len(), there.count(), "the guides name {seen:?}");
}

#[test]
fn the_metrics_that_operations_name_are_those_that_there_are() {
    let crates = root().join("crates");
    let (mut counted, mut folders) = (BTreeSet::new(), Vec::new());
    for name in ["hapax", "hapax-effects", "hapax-server", "hapax-store"] {
        folders.push(crates.join(name).join("src"));
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == "rs") {
                counted.extend(metrics(&fs::read_to_string(path).unwrap(), "\"hapax_"));
            }
        }
    }
    let named: BTreeSet<String> = metrics(&read("docs/operations.md"), "hapax_")
        .map(|name| name.trim_end_matches("_bucket").to_owned())
        .collect();
    assert!(named.len() > 20, "{named:?}");
    assert_eq!(
        counted, named,
        "the source on the left, the page on the right"
    );
}

/// The names after `start` that end as those of metrics do.
fn metrics(text: &str, start: &str) -> impl Iterator<Item = String> {
    const ENDS: [&str; 6] = [
        "_total",
        "_seconds",
        "_seconds_bucket",
        "_size",
        "_info",
        "_connections",
    ];
    text.split(start).skip(1).filter_map(|rest| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = format!("hapax_{}", &rest[..end]);
        ENDS.iter().any(|last| name.ends_with(last)).then_some(name)
    })
}

#[test]
fn the_lines_of_rust_are_those_of_the_example_that_is_tested() {
    let example = read("examples/payments-axum/src/main.rs");
    for page in ["README.md", "docs/guides/protect-an-api.md"] {
        let text = read(page);
        let (_, rest) = text.split_once("```rust\n").unwrap();
        let (lines, _) = rest.split_once("```").unwrap();
        for line in lines.lines() {
            assert!(
                example.lines().any(|there| there.trim() == line.trim()),
                "{page}: {line}"
            );
        }
    }
}

#[test]
fn a_page_that_is_wrong_is_told_with_its_line() {
    let page = "# Wrong\n\n```sh\nN=1\necho $N\n```\n\n```text\n2\n```\n";
    let told = |page: &str| {
        let program = hapax().get_program().to_owned();
        let stage = Stage::new(Path::new(&program), page, 31);
        stage.run(&page::steps(page).unwrap())
    };
    let why = told(page).expect_err("it prints 1");
    assert!(
        why.starts_with("line 4: it printed something else")
            && why.ends_with("--- it printed:\n1\n"),
        "{why}"
    );
    assert_eq!(told(&page.replace("\n2\n", "\n1\n")), Ok(()));
    let fails = "# Fails\n\n```sh\ntrue\nhapax key no-such-file\necho on\n```\n";
    let why = told(fails).expect_err("no such file");
    assert!(why.contains("line 5, exit code 1: hapax key"), "{why}");
    let refused = "# Refused\n\n```sh\necho '{\"error\":{\"code\":\"x\"}}'\n```\n";
    let why = told(refused).expect_err("a refusal");
    assert!(why.contains("does not show"), "{why}");
    let server = "```sh\nhapax serve &\n```\n\n```text\nlistening on http://127.0.0.1:8088\n…\n```\n\n```sh\ncurl -sf http://127.0.0.1:8088/health >here\n```\n";
    assert_eq!(told(server), Ok(()));
}

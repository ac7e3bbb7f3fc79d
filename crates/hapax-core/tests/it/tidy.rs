//! Style as tests: what a program can check of the house's rules, it checks here.
//! It reads files and cargo's own answers; it knows nothing of what the crates do.

mod lexer;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use lexer::Lexed;

const FILE_LINES_MAX: usize = 600;

/// Words that say nothing about what a file holds.
const EMPTY_NAMES: [&str; 5] = ["utils", "common", "helpers", "types", "models"];

/// Who may depend on whom. A crate that is not here has no place in the house yet.
const EDGES: [(&str, &[&str]); 9] = [
    ("hapax-core", &[]),
    ("hapax-store", &["hapax-core"]),
    ("hapax-intake", &["hapax-core"]),
    ("hapax", &["hapax-store", "hapax-core"]),
    ("hapax-effects", &["hapax", "hapax-core", "hapax-store"]),
    (
        "hapax-server",
        &[
            "hapax-effects",
            "hapax-intake",
            "hapax",
            "hapax-store",
            "hapax-core",
        ],
    ),
    // It believes nobody: only its tests know what is checked.
    ("hapax-check", &[]),
    (
        "hapax-fuzz",
        &["hapax-effects", "hapax-intake", "hapax-core", "hapax-check"],
    ),
    // It measures the others from outside; nothing depends on it.
    (
        "hapax-bench",
        &[
            "hapax-effects",
            "hapax-intake",
            "hapax",
            "hapax-store",
            "hapax-core",
        ],
    ),
];

const SQL_VERBS: [&str; 7] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "WITH",
];

#[test]
fn crates_depend_only_in_the_drawn_direction() {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo prints JSON");
    let packages = list(&metadata["packages"]);
    assert!(!packages.is_empty(), "the workspace has crates");
    report(packages.iter().flat_map(wrong_edges));
}

#[test]
fn serde_json_keeps_the_features_that_keys_rely_on() {
    let tree = cargo(&[
        "tree",
        "--workspace",
        "--all-features",
        "-e",
        "features",
        "-i",
        "serde_json",
    ]);
    assert!(tree.contains("serde_json v1"), "the tree is there: {tree}");
    report(key_changing_features(&tree));
}

#[test]
fn a_source_file_says_first_what_it_is() {
    report(each(&sources(), |text| {
        let opens = text.starts_with("//! ");
        (!opens)
            .then(|| "does not open with `//! `".to_owned())
            .into_iter()
            .collect()
    }));
}

#[test]
fn a_source_file_ends_before_it_gets_long() {
    report(each(&under("crates/*/src", "rs"), too_long));
}

#[test]
fn a_file_name_says_what_the_file_holds() {
    let files = [under("crates", "rs"), under("examples", "rs")].concat();
    report(files.iter().filter_map(|file| empty_name(file)));
}

#[test]
fn no_stub_is_left_in_the_source() {
    report(each(&sources(), stubs));
}

#[test]
fn rust_holds_no_sql() {
    report(each(&under("crates/*/src", "rs"), sql_in_rust));
}

#[test]
fn only_the_store_has_sql_files() {
    let store = root().join("crates/hapax-store");
    let files = [under("crates", "sql"), under("examples", "sql")].concat();
    report(
        files
            .iter()
            .filter(|file| !file.starts_with(&store) && !is_in(file, "tests"))
            .map(|file| format!("{}: SQL belongs to hapax-store", shown(file))),
    );
}

#[test]
fn a_statement_says_first_what_it_promises_and_names_its_columns() {
    report(each(
        &under("crates/hapax-store/sql/*", "sql"),
        statement_breaches,
    ));
}

#[test]
fn both_databases_have_the_same_migrations_without_a_gap() {
    let names = |backend: &str| -> Vec<String> {
        let mut names: Vec<String> =
            under(&format!("crates/hapax-store/migrations/{backend}"), "sql")
                .iter()
                .map(|file| name(file).to_owned())
                .collect();
        names.sort();
        names
    };
    let (sqlite, postgres) = (names("sqlite"), names("postgres"));
    assert_eq!(
        sqlite, postgres,
        "sqlite on the left, postgres on the right"
    );
    report(misnumbered(&sqlite));
}

#[test]
fn exactly_once_is_said_of_recording_only() {
    let mut files = sources();
    files.extend(under("crates/hapax-store/sql", "sql"));
    files.extend(everything().into_iter().filter(|file| {
        file.extension().is_some_and(|found| found == "md")
            && name(file) != "CHANGELOG.md"
            && !is_in(file, "tests")
    }));
    files.sort();
    files.dedup();
    report(each(&files, bare_exactly_once));
}

#[test]
fn no_file_names_a_path_of_someones_machine() {
    report(each(&everything(), machine_paths));
}

type Rule = fn(&str) -> Vec<String>;

/// A rule that cannot fail is no rule: each is shown here one breach and one text that keeps it.
const CASES: [(&str, Rule, &str, &str); 12] = [
    (
        "stub",
        stubs,
        "fn f() { todo!() }",
        "// todo!() later\nfn f() { g(\"todo!()\") }",
    ),
    (
        "stub",
        stubs,
        "fn f() { dbg!(1); }",
        "fn f() { my_dbg!(1); }",
    ),
    (
        "sql",
        sql_in_rust,
        "let q = \"SELECT id FROM t\";",
        "/// \"SELECT id\"\nlet q = \"SELECTED\";",
    ),
    (
        "sql",
        sql_in_rust,
        "let q = r#\"\n  -- x\n  UPDATE t SET a = 1\"#;",
        "let q = \"PRAGMA x\"; // UPDATE t",
    ),
    (
        "sql",
        sql_in_rust,
        "format!(\n  \"{x} DELETE FROM t\")",
        "panic!(\"no DELETE here\")",
    ),
    (
        "sql",
        sql_in_rust,
        "let c = '\"'; f(b\"WITH a AS\")",
        "let c = '\"'; let l: &'a str = \"BEGIN\";",
    ),
    (
        "statement",
        statement_breaches,
        "UPDATE t SET a = 1;",
        "-- Moves the row forward.\nUPDATE t SET a = 1;",
    ),
    (
        "statement",
        statement_breaches,
        "-- Reads all the rows.\nselect\n  * FROM t;",
        "-- Never SELECT *, count.\nSELECT count(*) FROM t;",
    ),
    (
        "once",
        bare_exactly_once,
        "/// It runs exactly\n/// once.",
        "/// Recording is\n/// exactly once.",
    ),
    (
        "once",
        bare_exactly_once,
        "recorded.\n\nExactly-once!",
        "It is recorded exactly once.",
    ),
    (
        "path",
        machine_paths,
        "see `/HOME/me`",
        "GET /v1/HOME/me and files/HOME/x",
    ),
    (
        "features",
        key_changing_features,
        "└── serde_json feature \"preserve_order\"",
        "serde_json feature \"raw_value\"",
    ),
];

#[test]
fn every_rule_finds_its_breach_and_only_that() {
    for (rule, check, breach, kept) in CASES {
        let [breach, kept] = [breach, kept].map(|text| text.replace("HOME", "home"));
        assert!(!check(&breach).is_empty(), "{rule} misses {breach:?}");
        assert_eq!(check(&kept), Vec::<String>::new(), "{rule} on {kept:?}");
    }
    assert!(!too_long(&"\n".repeat(FILE_LINES_MAX + 1)).is_empty());
    assert!(too_long(&"\n".repeat(FILE_LINES_MAX)).is_empty());
    for (breach, kept) in [("0002_a.sql", "0001_a.sql"), ("1_a.sql", "0001_a_2.sql")] {
        assert!(!misnumbered(&[breach.to_owned()]).is_empty());
        assert!(misnumbered(&[kept.to_owned()]).is_empty());
    }
}

/// The dependencies of one package of `cargo metadata` that no edge allows.
fn wrong_edges(package: &Value) -> Vec<String> {
    let from = text(&package["name"]);
    let example = Path::new(text(&package["manifest_path"])).starts_with(root().join("examples"));
    let allowed = EDGES.iter().find(|(crate_name, _)| *crate_name == from);
    let allowed = match allowed {
        Some((_, allowed)) => *allowed,
        None if example => &["hapax"],
        None => return vec![format!("{from} has no place in the house: see EDGES")],
    };
    list(&package["dependencies"])
        .iter()
        .filter(|dependency| dependency["path"].is_string())
        .filter_map(|dependency| {
            let to = text(&dependency["name"]);
            let dev = dependency["kind"] == "dev";
            // Tests may need a real ledger, the checker of histories, or their own crate with another feature.
            let for_tests = ["hapax-store", "hapax-check", from].contains(&to)
                || from == "hapax-check" && ["hapax", "hapax-core"].contains(&to);
            let fine = allowed.contains(&to) || dev && for_tests;
            (!fine).then(|| format!("{from} must not depend on {to}"))
        })
        .collect()
}

/// Features that would change canonical bytes, and so keys, for everyone who links us.
fn key_changing_features(tree: &str) -> Vec<String> {
    ["arbitrary_precision", "preserve_order"]
        .iter()
        .filter(|feature| tree.contains(&format!("serde_json feature \"{feature}\"")))
        .map(|feature| format!("serde_json/{feature} is enabled; see cargo tree -e features"))
        .collect()
}

fn too_long(text: &str) -> Vec<String> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX)
        .then(|| format!("{lines} lines, more than {FILE_LINES_MAX}"))
        .into_iter()
        .collect()
}

fn empty_name(file: &Path) -> Option<String> {
    let inside = file.strip_prefix(root()).unwrap_or(file).with_extension("");
    inside
        .iter()
        .filter_map(|part| part.to_str())
        .find(|part| EMPTY_NAMES.contains(part))
        .map(|part| format!("{}: `{part}` says nothing", shown(file)))
}

fn stubs(text: &str) -> Vec<String> {
    let code = Lexed::new(text).code;
    ["todo!", "unimplemented!", "dbg!"]
        .iter()
        .filter(|stub| {
            code.match_indices(*stub)
                .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
        .map(|stub| format!("{stub} is left"))
        .collect()
}

/// A literal with a line that begins like a statement; in `format!` anywhere in the literal.
fn sql_in_rust(text: &str) -> Vec<String> {
    let lexed = Lexed::new(text);
    let begins = |words: &str| {
        let verb = words.split_whitespace().next().unwrap_or_default();
        SQL_VERBS.contains(&verb) && words.trim_start().len() > verb.len()
    };
    lexed
        .literals
        .iter()
        .filter(|literal| {
            let formatted = literal.is_first_argument_of(&lexed.code, "format!");
            literal.text.lines().any(begins)
                || formatted
                    && literal
                        .text
                        .split_inclusive(char::is_whitespace)
                        .any(|word| {
                            word.len() > word.trim_end().len()
                                && SQL_VERBS.contains(&word.trim_end())
                        })
        })
        .map(|literal| format!("line {}: SQL belongs in a .sql file", literal.line))
        .collect()
}

fn statement_breaches(text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let promise = text.lines().next().unwrap_or_default().strip_prefix("-- ");
    if promise.is_none_or(|promise| promise.split_whitespace().count() < 3) {
        breaches.push("does not open with `-- ` and what it promises".to_owned());
    }
    let statement: Vec<&str> = text
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default())
        .flat_map(str::split_whitespace)
        .collect();
    if statement.windows(2).any(|pair| {
        pair[0].eq_ignore_ascii_case("select") && pair[1].trim_end_matches([',', ';']) == "*"
    }) {
        breaches.push("names no columns: `SELECT *`".to_owned());
    }
    breaches
}

/// Names that are not `NNNN_name.sql`, counted from 0001.
fn misnumbered(names: &[String]) -> Vec<String> {
    let fits = |name: &str, number: usize| {
        name.strip_prefix(&format!("{number:04}_"))
            .and_then(|rest| rest.strip_suffix(".sql"))
            .is_some_and(|rest| {
                !rest.is_empty()
                    && rest
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            })
    };
    (1..)
        .zip(names)
        .filter(|(number, name)| !fits(name, *number))
        .map(|(number, name)| format!("migration {name} should be {number:04}_….sql"))
        .collect()
}

/// Paragraphs that promise the phrase without saying that it is recording they speak of.
fn bare_exactly_once(text: &str) -> Vec<String> {
    let mut paragraphs = vec![(1, String::new())];
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.trim_start_matches([' ', '\t', '/', '!', '*', '#', '-', '>']);
        if words.is_empty() {
            paragraphs.push((number + 1, String::new()));
        } else if let Some((_, paragraph)) = paragraphs.last_mut() {
            paragraph.push_str(&words.to_lowercase().replace('-', " "));
            paragraph.push(' ');
        }
    }
    paragraphs
        .into_iter()
        .map(|(line, paragraph)| {
            (
                line,
                paragraph.split_whitespace().collect::<Vec<_>>().join(" "),
            )
        })
        .filter(|(_, paragraph)| {
            paragraph.contains("exactly once")
                && !paragraph.contains("recording")
                && !paragraph.contains("recorded")
        })
        .map(|(line, _)| format!("paragraph at line {line}: bare \"exactly once\""))
        .collect()
}

/// Absolute paths into somebody's home or workshop. A longer path may hold such a part.
fn machine_paths(text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for folder in ["root", "work", "home"] {
            let path = format!("/{folder}/");
            let starts = |at: usize| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._~-*}>)$".contains(c))
            };
            if line.match_indices(&path).any(|(at, _)| starts(at)) {
                breaches.push(format!("line {number}: {path} is a path of one machine"));
            }
        }
    }
    breaches
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest
        .ancestors()
        .nth(2)
        .expect("crates/hapax-core is two levels down");
    assert!(
        root.join("Cargo.toml").is_file(),
        "{} is the workspace",
        root.display()
    );
    root.to_owned()
}

fn sources() -> Vec<PathBuf> {
    [under("crates/*/src", "rs"), under("examples/*/src", "rs")].concat()
}

/// Files with this extension under a folder of the workspace; `*` stands for any one folder.
/// A folder that is not there yet has no files.
fn under(pattern: &str, extension: &str) -> Vec<PathBuf> {
    let mut folders = vec![root()];
    for part in pattern.split('/') {
        folders = folders
            .iter()
            .flat_map(|folder| match part {
                "*" => entries(folder),
                part => vec![folder.join(part)],
            })
            .filter(|path| path.is_dir())
            .collect();
    }
    let mut files = Vec::new();
    for folder in folders {
        walk(&folder, &mut files);
    }
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files
}

/// Every file that belongs to the project: what .gitignore leaves out is not walked.
fn everything() -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(&root(), &mut files);
    assert!(!files.is_empty(), "the workspace has files");
    files
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    const SKIPPED: [&str; 5] = [".git", "target", "node_modules", ".venv", "hapax-data"];
    for path in entries(folder) {
        if path.is_symlink() || SKIPPED.contains(&name(&path)) {
            continue;
        }
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Applies a rule to each file's text. A file that is not text, or is gone by now, breaks none.
fn each(files: &[PathBuf], rule: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    files
        .iter()
        .filter_map(|file| Some((file, fs::read_to_string(file).ok()?)))
        .flat_map(|(file, text)| {
            rule(&text)
                .into_iter()
                .map(|breach| format!("{}: {breach}", shown(file)))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn report(breaches: impl IntoIterator<Item = String>) {
    let breaches: Vec<String> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

/// What cargo says about the workspace, from what is already on this machine.
fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(arguments)
        .args(["--offline", "--color", "never"])
        .current_dir(root())
        .output()
        .expect("cargo runs the tests, so it is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn shown(file: &Path) -> String {
    file.strip_prefix(root())
        .unwrap_or(file)
        .display()
        .to_string()
}

fn name(file: &Path) -> &str {
    file.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

fn is_in(file: &Path, folder: &str) -> bool {
    file.iter().any(|part| part == folder)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("cargo metadata names it")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("cargo metadata lists it")
}

//! `hapax key` against every vector, and its refusals.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::fixture::{hapax, path, refused, succeed};

fn key(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = hapax()
        .arg("key")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn every_vector_comes_out_as_it_stands() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/vectors/canonical.json"
    );
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut compared = 0;
    for case in vectors["cases"].as_array().unwrap() {
        let input = case["input"].as_str().unwrap().as_bytes();
        for (profile, expected) in case["profiles"].as_object().unwrap() {
            compared += 1;
            let name = format!("{} in {profile}", case["name"]);
            let hash = key(&["--profile", profile], input);
            if let Some(reason) = expected["refused"].as_str() {
                assert_eq!(hash.status.code(), Some(1), "{name}");
                let said = String::from_utf8(hash.stderr).unwrap();
                assert!(
                    hash.stdout.is_empty() && said.contains(reason),
                    "{name}: {said}"
                );
                continue;
            }
            let expected_hash = expected["hash"].as_str().unwrap();
            assert_eq!(
                String::from_utf8(hash.stdout).unwrap(),
                format!("{expected_hash}\n"),
                "{name}"
            );
            let canonical = key(&["--profile", profile, "--canon", "-"], input);
            assert_eq!(
                String::from_utf8(canonical.stdout).unwrap(),
                expected["canonical"].as_str().unwrap(),
                "{name}"
            );
        }
    }
    assert!(compared > 100, "{compared} vectors");
}

#[test]
fn a_refused_document_says_why_and_where() {
    let output = key(&[], br#"{"a":1,"a":2}"#);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("duplicate_key") && said.contains("byte 7"),
        "{said}"
    );
    let json: Value = serde_json::from_slice(&key(&["--json"], b"[1,]").stdout).unwrap();
    assert_eq!(
        json["refused"],
        serde_json::json!({"reason": "syntax", "offset": 3})
    );
}

#[test]
fn a_file_is_read_and_a_missing_one_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{ }").unwrap();
    let hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(succeed(&["key", path(file.path())]), format!("{hash}\n"));
    let json: Value =
        serde_json::from_str(&succeed(&["key", "--json", path(file.path())])).unwrap();
    assert_eq!(json, serde_json::json!({"profile": "hcj-1", "key": hash}));
    assert!(refused(&["key", "/no/such/file"], 1).contains("/no/such/file"));
    assert!(refused(&["key", "--profile", "md5", path(file.path())], 2).contains("hcj-1"));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = hapax()
        .args(["key", "--canon"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let document = format!("[{}]", vec!["1"; 200_000].join(","));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(document.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn each_line_of_a_file_is_a_document_of_its_own() {
    let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let good = key(&["--lines"], b"{}\n { } \n{}");
    assert_eq!(good.status.code(), Some(0));
    let told = String::from_utf8(good.stdout).unwrap();
    assert_eq!(told, format!("{empty}\n").repeat(3));

    let mixed = key(&["--lines"], b"{}\n{\"a\":1,\"a\":2}\n\n\"\xff\"\n{}\n");

    assert_eq!(mixed.status.code(), Some(1));
    let told = String::from_utf8(mixed.stdout).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    let refused = [
        "refused:duplicate_key",
        "refused:syntax",
        "refused:invalid_utf8",
    ];
    assert_eq!(lines[1..4], refused);
    assert_eq!((lines[0], lines[4], lines.len()), (empty, empty, 5));
    let said = String::from_utf8(mixed.stderr).unwrap();
    assert!(said.contains("refused 3 of 5 lines"), "{said}");
}

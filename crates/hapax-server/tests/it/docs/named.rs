//! The page on threats names a test for each: every one is there.

use std::fs;
use std::path::Path;

use super::root;

#[test]
fn every_test_that_the_page_on_threats_names_is_there() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let named = tests_named(&page);
    assert!(named.len() > 60, "{} are named", named.len());
    let mut source = String::new();
    read(&root().join("crates"), &mut source);
    // Some are made by a macro from a list of names.
    let is_there = |name: &&&str| {
        let forms = [format!("fn {name}("), format!("    {name}: \"")];
        forms.iter().any(|form| source.contains(form))
    };
    let gone: Vec<&&str> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(gone.is_empty(), "{gone:#?}");
}

#[test]
fn a_sentence_in_code_marks_is_the_name_of_a_test() {
    let page = "`a_test_is_named` and `update_fields`, `dev/audit`, `HAPAX_TOKEN`";
    assert_eq!(tests_named(page), ["a_test_is_named"]);
}

/// The words in code marks that have the form of a test's name.
fn tests_named(page: &str) -> Vec<&str> {
    let marked = page.split('`').skip(1).step_by(2);
    let is_sentence = |word: &&str| {
        word.matches('_').count() >= 3
            && word
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    // Names of settings end in what they count.
    let is_setting = |word: &&str| word.ends_with("_ms") || word.ends_with("_max");
    marked
        .filter(is_sentence)
        .filter(|word| !is_setting(word))
        .collect()
}

fn read(folder: &Path, source: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, source);
        } else if path.extension().is_some_and(|found| found == "rs") {
            source.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

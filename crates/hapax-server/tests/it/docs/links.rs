//! The links between the pages: every relative one leads to a file that is there, and to a heading that is in it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::root;

#[test]
fn every_link_between_pages_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() > 40, "the pages are found: {pages:?}");
    let wrong: Vec<String> = pages.iter().flat_map(|page| broken(page)).collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_index_of_the_guides_leaves_none_out() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for page in super::guides() {
        assert!(
            index.contains(&format!("({page})")),
            "docs/README.md does not link to {page}"
        );
    }
}

#[test]
fn a_link_is_found_in_prose_and_not_in_code() {
    let page =
        "[a](x.md#y) and `[b](no.md)`\n\n```text\n[c](no.md)\n```\n[d](<z w.md>) ![e](e.png)";
    assert_eq!(links(page), ["x.md#y", "z w.md", "e.png"]);
    assert_eq!(slug("What is `here`, and why?"), "what-is-here-and-why");
    assert_eq!(slug("[Unreleased]"), "unreleased");
    let twice = anchors("# A b\n## A b\n```sh\n# no\n```\n");
    assert_eq!(twice, ["a-b", "a-b-1"]);
}

/// All pages of the project.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let skipped = ["target", "node_modules", "vendor", "hapax-data"].contains(&&*name);
            if path.is_symlink() || skipped || name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == "md") {
                found.push(path);
            }
        }
    }
    found
}

fn broken(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let shown = page.strip_prefix(root()).unwrap().display();
    let outside = |link: &str| link.contains("://") || link.starts_with("mailto:");
    let mut wrong = Vec::new();
    for link in links(&text).iter().filter(|link| !outside(link)) {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = match path {
            "" => page.to_owned(),
            path => page.parent().unwrap().join(path),
        };
        if !target.exists() {
            wrong.push(format!("{shown}: {link} leads nowhere"));
            continue;
        }
        if anchor.is_empty() {
            continue;
        }
        let headings = fs::read_to_string(&target).map(|text| anchors(&text));
        if !headings.is_ok_and(|found| found.iter().any(|found| found == anchor)) {
            wrong.push(format!("{shown}: {link} names no heading"));
        }
    }
    wrong
}

/// The page without its code.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    // Every second part is code.
    let text: String = text.split('`').step_by(2).collect();
    text.split("](")
        .skip(1)
        .filter_map(|rest| match rest.strip_prefix('<') {
            Some(rest) => rest.split_once('>'),
            None => rest.split_once(')'),
        })
        .map(|(target, _)| target.split(" \"").next().unwrap_or_default().to_owned())
        .collect()
}

/// The anchors of a page's headings, as code hosts make them.
fn anchors(page: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    for line in prose(page).lines().filter(|line| line.starts_with('#')) {
        let anchor = slug(line.trim_start_matches('#').trim());
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(match *count {
            0 => anchor,
            again => format!("{anchor}-{again}"),
        });
        *count += 1;
    }
    anchors
}

fn slug(heading: &str) -> String {
    let mut slug = String::new();
    for c in heading.to_lowercase().chars() {
        match c {
            ' ' => slug.push('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => slug.push(c),
            _ => {}
        }
    }
    slug
}

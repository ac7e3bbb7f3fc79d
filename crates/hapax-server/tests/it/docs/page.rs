//! What a page of the documentation asks to be run, in order, and the rules that its blocks follow.
//! It reads text and runs nothing.

/// The languages of blocks that are neither run nor compared.
const QUIET: [&str; 4] = ["rust", "mermaid", "usage", "console"];

/// One thing that a page does.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The block is the content of this file.
    File { name: String, text: String },
    /// The block is run. `line` is where its first line stands in the page.
    Run {
        line: usize,
        text: String,
        shown: Option<Shown>,
    },
}

/// What a block must print.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    Text(String),
    Json(String),
}

struct Block<'a> {
    /// The line of its fence.
    line: usize,
    info: &'a str,
    text: String,
    /// The last line before it that is not blank.
    before: &'a str,
}

impl Block<'_> {
    fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    fn file(&self) -> Option<&str> {
        self.info
            .split_whitespace()
            .find_map(|word| word.strip_prefix("file="))
    }
}

/// The steps of a page; or what is wrong with it, each with its line.
pub(crate) fn steps(page: &str) -> Result<Vec<Step>, Vec<String>> {
    let (blocks, mut wrong) = blocks(page);
    let mut steps = Vec::new();
    for block in blocks {
        let Block { line, text, .. } = &block;
        if let Some(name) = block.file() {
            let (name, text) = (name.to_owned(), text.clone());
            steps.push(Step::File { name, text });
            continue;
        }
        match block.language() {
            "sh" => steps.push(Step::Run {
                line: line + 1,
                text: text.clone(),
                shown: None,
            }),
            language @ ("text" | "json") => match steps.last_mut() {
                // Directly under the command: nothing between them but the end of its block.
                Some(Step::Run { shown, .. }) if shown.is_none() && block.before == "```" => {
                    let text = text.clone();
                    *shown = Some(match language {
                        "json" => Shown::Json(text),
                        _ => Shown::Text(text),
                    });
                }
                _ => wrong.push(format!(
                    "line {line}: this block stands under no command that prints it"
                )),
            },
            "console" if !is_reason(block.before) => wrong.push(format!(
                "line {line}: say above it, as <!-- not run: … -->, why this is not run"
            )),
            quiet if QUIET.contains(&quiet) => {}
            other => wrong.push(format!(
                "line {line}: a block of `{other}` needs a file=NAME to be checked"
            )),
        }
    }
    wrong.extend(unused(&steps));
    if wrong.is_empty() {
        Ok(steps)
    } else {
        Err(wrong)
    }
}

fn is_reason(line: &str) -> bool {
    line.starts_with("<!-- not run: ") && line.ends_with(" -->")
}

/// Files that no later command and no other file names: they would be shown and never tried.
fn unused(steps: &[Step]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let Step::File { name, .. } = step else {
            continue;
        };
        let names = |text: &str| text.contains(name.as_str());
        let used = steps.iter().enumerate().any(|(other, step)| match step {
            Step::Run { text, .. } => other > place && names(text),
            Step::File { text, .. } => other != place && names(text),
        });
        if !used {
            wrong.push(format!("the file {name} is used by no command after it"));
        }
    }
    wrong
}

/// The fenced blocks, and commands that stand outside of any.
fn blocks(page: &str) -> (Vec<Block<'_>>, Vec<String>) {
    let (mut blocks, mut wrong) = (Vec::new(), Vec::new());
    let mut open: Option<Block<'_>> = None;
    let mut before = "";
    for (number, line) in (1..).zip(page.lines()) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block {
                    line: number,
                    info,
                    text: String::new(),
                    before,
                });
            }
            (Some(_), Some("")) => {
                blocks.extend(open.take());
                before = "```";
            }
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {
                let command = line.strip_prefix("    ").map(str::trim_start);
                let command = command.and_then(|line| line.split_whitespace().next());
                if command.is_some_and(|word| ["$", "curl", "hapax", "export"].contains(&word)) {
                    wrong.push(format!("line {number}: a command outside of a block of sh"));
                }
                if !line.trim().is_empty() {
                    before = line;
                }
            }
        }
    }
    if let Some(block) = open {
        wrong.push(format!("line {}: this block has no end", block.line));
    }
    (blocks, wrong)
}

#[test]
fn a_page_is_its_files_its_commands_and_what_they_print() {
    let page = "# T\n\n```toml file=a.toml\nx = 1\n```\n\nThen:\n\n```sh\ncat a.toml\n```\n\n```text\nx = 1\n```\n";
    let expected = vec![
        Step::File {
            name: "a.toml".to_owned(),
            text: "x = 1\n".to_owned(),
        },
        Step::Run {
            line: 10,
            text: "cat a.toml\n".to_owned(),
            shown: Some(Shown::Text("x = 1\n".to_owned())),
        },
    ];
    assert_eq!(steps(page), Ok(expected));
}

#[test]
fn what_would_be_shown_and_never_tried_is_refused() {
    for (page, why) in [
        ("```json\n{}\n```\n", "under no command"),
        (
            "```sh\ntrue\n```\n\nIt says:\n\n```text\nx\n```\n",
            "under no command",
        ),
        ("```toml\nx = 1\n```\n", "file=NAME"),
        ("```\nhapax serve\n```\n", "file=NAME"),
        ("```toml file=a.toml\nx = 1\n```\n", "used by no command"),
        ("```console\n$ docker run\n```\n", "not run: …"),
        ("Do:\n\n    hapax serve\n", "outside of a block"),
        ("```sh\ntrue\n", "has no end"),
    ] {
        let wrong = steps(page).expect_err(page);
        assert!(wrong[0].contains(why), "{page}: {wrong:?}");
    }
    let told = "<!-- not run: it needs Docker -->\n\n```console\n$ docker run\n```\n";
    assert_eq!(steps(told), Ok(Vec::new()));
}

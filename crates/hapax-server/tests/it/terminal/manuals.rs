//! Completions, the manual page, the version, the configuration and the help: what the program says of itself.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::is_one_message_and_one_hint;
use crate::fixture::{hapax, json, path, refused, succeed};

#[test]
fn each_shell_gets_a_script_that_names_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = succeed(&["completions", shell]);
        for word in ["keys", "settle", "policies", "completions", "redis-mode"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    is_one_message_and_one_hint(&refused(&["completions", "tcl"], 2));
}

#[test]
fn bash_completes_with_the_script() {
    let script = succeed(&["completions", "bash"])
        + "\nCOMP_WORDS=(hapax keys s) COMP_CWORD=2\n_hapax hapax s keys\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let mut bash = Command::new("bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let offered = String::from_utf8(bash.wait_with_output().unwrap().stdout).unwrap();
    let offered: Vec<&str> = offered.lines().collect();
    assert_eq!(offered, ["show", "settle"]);
}

#[test]
fn the_manual_page_describes_every_command() {
    let page = succeed(&["man"]);
    assert!(page.contains(".TH hapax 1"), "{page}");
    for section in ["HAPAX SERVE", "HAPAX KEYS SETTLE", "HAPAX TOKEN CREATE"] {
        assert!(page.contains(&format!(".SH \"{section}\"")), "{section}");
    }
}

#[test]
fn the_version_says_what_it_was_built_from() {
    let version = json(&["version"]);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let commit = version["commit"].as_str();
    let is_hash = |text: &str| text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(commit.is_none_or(is_hash), "{version}");
    assert!(
        version["target"]
            .as_str()
            .unwrap()
            .contains(std::env::consts::ARCH)
    );
    let features: Vec<&str> = version["features"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(features.contains(&"sqlite") && features.contains(&"postgres"));
    let line = succeed(&["version"]);
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn the_configuration_is_printed_shown_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    let default = succeed(&["config", "default"]);
    std::fs::write(&file, &default).unwrap();
    let checked = json(&["config", "check", "--config", path(&file)]);
    assert_eq!(checked["ok"], true, "the defaults can be followed");

    std::fs::write(
        &file,
        "body_bytes_max = 77\nredis = 'redis://me:s3cret@h:1'\n[[routes]]\npattern = 'POST:a'\nttl_seconds = 5\n",
    )
    .unwrap();
    let mut command = hapax();
    command
        .args(["config", "show", "--json", "--config", path(&file)])
        .args(["--database", "postgres://me:s3cret@localhost/d"])
        .env("HAPAX_CONNECTIONS_MAX", "9");
    let output = command.current_dir(folder.path()).output().unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["body_bytes_max"], 77, "the file's");
    assert_eq!(shown["connections_max"], 9, "the variable's");
    assert_eq!(
        shown["database"], "postgres://me:***@localhost/d",
        "the flag's"
    );
    assert_eq!(shown["redis"], "redis://me:***@h:1");
    assert_eq!(shown["routes"][0]["pattern"], "POST:a");

    // What is shown is a config file again.
    let text = succeed(&["config", "show", "--config", path(&file)]);
    std::fs::write(&file, text).unwrap();
    succeed(&["config", "check", "--config", path(&file)]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    std::fs::write(&file, "[[routes]]\npattern = 'POST:payments/link'\n").unwrap();
    let said = refused(&["config", "check", "--config", path(&file)], 2);
    is_one_message_and_one_hint(&said);
}

#[test]
fn the_help_of_a_command_shows_its_own_flags_first_and_redis_only_where_it_is_explained() {
    let whole = succeed(&["--help"]);
    assert!(whole.contains("--redis <URL>"), "{whole}");
    let list = succeed(&["keys", "list", "--help"]);
    let at = |flag: &str| list.find(flag).unwrap_or_else(|| panic!("{flag}: {list}"));
    for own in ["--route", "--state", "--limit"] {
        assert!(at(own) < at("--config"), "{list}");
    }
    assert!(!list.contains("--redis <URL>"), "{list}");
    assert!(list.contains("`hapax --help` explains --redis"), "{list}");
    for command in ["proxy", "worker", "download", "doctor", "sweep", "bench"] {
        let help = succeed(&[command, "--help"]);
        assert!(!help.contains("--redis <URL>"), "{command}: {help}");
    }
    // A command without a store has no flags of one.
    for command in ["key", "completions", "version"] {
        let help = succeed(&[command, "--help"]);
        assert!(!help.contains("--database"), "{command}: {help}");
    }
}

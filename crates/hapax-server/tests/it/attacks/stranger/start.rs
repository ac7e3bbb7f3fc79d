//! Servers that a stranger could guess the way into: they do not start.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::fixture::{Server, hapax, path};

#[test]
fn a_token_that_can_be_guessed_starts_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (short, flags) in [
        ("zq7", &[][..]),
        ("secret123", &[]),
        ("0123456789abcde", &[]),
        ("   0123456789abcde ", &[]),
        ("0123456789abcde", &["--insecure-no-auth"]),
    ] {
        let mut started = hapax()
            .args(["serve", "--listen", "127.0.0.1:0", "--data", path(&data)])
            .args(flags)
            .env("HAPAX_TOKEN", short)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(started.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        if !line.is_empty() {
            started.kill().unwrap();
        }
        let output = started.wait_with_output().unwrap();
        assert_eq!(line, "", "it never listened");
        assert_eq!(output.status.code(), Some(2), "{short}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("HAPAX_TOKEN has fewer than 16 characters"),
            "{said}"
        );
        assert!(said.contains("\nhint: "), "{said}");
        assert!(!said.contains(short.trim()), "{said}");
        assert!(!data.exists(), "a refused start leaves nothing behind");
    }
    let server = Server::start_with(|command| {
        command.env("HAPAX_TOKEN", "0123456789abcdef");
    });
    assert_eq!(
        server
            .bearing("0123456789abcdef", "GET", "/v1/keys", "")
            .status,
        200
    );
}

//! What to do about an error that does not say so itself. Systems and servers are known by the words they use.

use hapax_core::Kind;

use super::Usage;

/// Words of an error, and what to do about it.
const KNOWN: [(&[&str], &str); 15] = [
    (
        &["not a database", "malformed"],
        "restore a backup: docs/errors/HX003; --database names another file",
    ),
    (
        &["Read-only file system", "readonly database"],
        "the disk or the file is read-only: --data DIR names a folder on another disk",
    ),
    (
        &["Permission denied", "Operation not permitted"],
        "this user may not write there: name a folder of yours with --data DIR, or run as the user that owns it",
    ),
    (
        &["No space left", "disk is full", "DiskFull"],
        "make room, or name a folder on another disk with --data DIR; `hapax doctor` shows what is free",
    ),
    (
        &["unable to open database file"],
        "is the folder there and writable? --data DIR or --database sqlite:PATH names another place",
    ),
    (
        &["database is locked"],
        "another program holds the database; run it again in a moment",
    ),
    (
        &["password authentication failed", "role \""],
        "look at user and password in --database postgres://USER:PASSWORD@HOST/DATABASE",
    ),
    (
        &["SQLSTATE 3D000"],
        "make the database first: createdb NAME",
    ),
    (
        &["connecting to PostgreSQL", "connecting to the server"],
        "is PostgreSQL running, and are host and port in --database right?",
    ),
    (
        &["reading the config file"],
        "--config FILE or HAPAX_CONFIG names it; `hapax config default` prints one to start from",
    ),
    (
        &["making the data folder"],
        "name a folder that can be made with --data DIR",
    ),
    (
        &[
            "reading the manifest",
            "reading the mailbox",
            "reading the document",
            "reading the body",
        ],
        "is the path right, and may this user read it?",
    ),
    (
        &["Address already in use"],
        "stop the other program, or listen elsewhere: --listen 127.0.0.1:0",
    ),
    (
        &["No such file or directory"],
        "is the path right? --data DIR and --database name other places",
    ),
    (
        &["timed out", "no answer within", "Connection refused"],
        "is the server running and reachable? `hapax doctor` looks at it",
    ),
];

/// The way out that these words, or the kind of the error, point at.
pub(super) fn of(error: &anyhow::Error, text: &str) -> String {
    let known = KNOWN
        .iter()
        .find(|(words, _)| words.iter().any(|word| text.contains(word)));
    if let Some((_, hint)) = known {
        return (*hint).to_owned();
    }
    let kind = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<hapax_core::Error>())
        .map(hapax_core::Error::kind);
    match kind {
        Some(kind @ (Kind::Corrupt | Kind::Limit | Kind::Unsafe | Kind::Unsupported)) => {
            format!("docs/errors/{} says what to do", kind.code())
        }
        Some(Kind::Unavailable | Kind::OutcomeUnknown) => {
            "run it again; `hapax doctor` looks at the database".to_owned()
        }
        None if error.is::<Usage>() => {
            "`hapax COMMAND --help` lists flags, `hapax config default` the keys of the config file"
                .to_owned()
        }
        None => "`hapax doctor` looks at the configuration, the folder and the database".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Error;

    #[test]
    fn every_error_has_a_way_out() {
        let of = |error: anyhow::Error| {
            let text = error.to_string();
            of(&error, &text)
        };
        let denied = "opening sqlite:x: Permission denied (os error 13)";
        assert!(of(anyhow::anyhow!(denied)).contains("--data DIR"));
        let foreign = Error::new(Kind::Corrupt, "opening").because("file is not a database");
        assert!(of(foreign.into()).contains("docs/errors/HX003"));
        let set_up = Error::new(Kind::Unsafe, "opening").because("no such role");
        assert!(of(set_up.into()).contains("docs/errors/HX005"));
        assert!(of(Usage::error("no")).contains("--help"));
        assert!(of(anyhow::anyhow!("it")).contains("doctor"));
    }
}

//! Who is measured, and how each is started.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::Cli;
use crate::database::Postgres;
use crate::measure::Subject;
use crate::peers::Peers;
use crate::process::Server;
use crate::talk::{TOKEN, Talk};

/// Everybody who is measured.
pub(crate) struct Subjects {
    ours: Vec<Subject>,
    peers: Peers,
}

impl Subjects {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Subject> {
        self.ours.iter().chain(&self.peers.subjects)
    }
}

/// Starts every subject that is asked for. Peers must be installed, so a check leaves them out.
///
/// # Errors
/// When one does not start.
pub(crate) async fn start(cli: &Cli, folder: &Path) -> Result<Subjects> {
    let postgres = Postgres::of_environment().await?;
    let wanted =
        |name: &str| cli.only.is_empty() || cli.only.iter().any(|only| name.contains(only));
    let mut subjects = Vec::new();
    let bare = Server::start(&mut own("bare")?)?;
    let upstream = format!("http://{}", bare.address);
    subjects.push(Subject {
        name: "bare",
        servers: vec![bare],
        talk: Talk::Bare,
        database: None,
    });
    if wanted("layer, memory") {
        let mut command = own("memory")?;
        subjects.push(subject("layer, memory", &mut command, Talk::Keyed)?);
    }
    if wanted("layer, SQLite FULL") {
        let mut command = own("sqlite")?;
        command.arg("--file").arg(folder.join("layer.db"));
        subjects.push(subject("layer, SQLite FULL", &mut command, Talk::Keyed)?);
    }
    for (at, program) in cli.beside.iter().enumerate() {
        for (name, front) in [
            ("layer, memory", "memory"),
            ("layer, SQLite FULL", "sqlite"),
        ] {
            if wanted(name) {
                let mut command = served(program, front);
                command
                    .arg("--file")
                    .arg(folder.join(format!("layer-{at}.db")));
                let name = format!("{name}, {}", program.display());
                // One name per program, kept for the whole run.
                subjects.push(subject(name.leak(), &mut command, Talk::Keyed)?);
            }
        }
    }
    for (name, front) in [
        ("layer, PostgreSQL", "postgres"),
        ("plain, PostgreSQL", "plain"),
    ] {
        if wanted(name) {
            let mut command = own(front)?;
            command.arg("--database").arg(postgres.create().await?);
            subjects.push(beside(&postgres, subject(name, &mut command, Talk::Keyed)?));
        }
    }
    for (name, is_proxy) in [
        ("proxy, SQLite FULL", true),
        ("remote API, SQLite FULL", false),
    ] {
        if wanted(name) {
            let data = folder.join(if is_proxy { "proxy" } else { "serve" });
            let mut command = hapax(cli, is_proxy, &upstream, &data);
            let talk = if is_proxy { Talk::Keyed } else { Talk::Remote };
            subjects.push(subject(name, &mut command, talk)?);
        }
    }
    for (name, is_proxy) in [
        ("proxy, PostgreSQL", true),
        ("remote API, PostgreSQL", false),
    ] {
        if wanted(name) {
            let data = folder.join(if is_proxy { "proxy-pg" } else { "serve-pg" });
            let mut command = hapax(cli, is_proxy, &upstream, &data);
            command.arg("--database").arg(postgres.create().await?);
            let talk = if is_proxy { Talk::Keyed } else { Talk::Remote };
            subjects.push(beside(&postgres, subject(name, &mut command, talk)?));
        }
    }
    let peers = if cli.check {
        Peers::none()
    } else {
        Peers::start(&postgres, folder, wanted).await?
    };
    Ok(Subjects {
        ours: subjects,
        peers,
    })
}

fn subject(name: &'static str, command: &mut Command, talk: Talk) -> Result<Subject> {
    Ok(Subject {
        name,
        servers: vec![Server::start(command).with_context(|| format!("starting {name}"))?],
        talk,
        database: None,
    })
}

/// The same subject, with the CPU of the database beside it.
fn beside(postgres: &Postgres, subject: Subject) -> Subject {
    Subject {
        database: Some(postgres.tree),
        ..subject
    }
}

/// This program as a server.
pub(crate) fn own(front: &str) -> Result<Command> {
    Ok(served(&std::env::current_exe()?, front))
}

/// A build of this program as a server.
fn served(program: &Path, front: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["serve", "--front", front]);
    command
}

pub(crate) fn hapax(cli: &Cli, is_proxy: bool, upstream: &str, data: &Path) -> Command {
    let mut command = Command::new(&cli.hapax);
    if is_proxy {
        command.args(["proxy", "--upstream", upstream]);
    } else {
        command
            .args(["serve", "--no-worker"])
            .env("HAPAX_TOKEN", TOKEN);
    }
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .env("HAPAX_LOG", "warn");
    command
}

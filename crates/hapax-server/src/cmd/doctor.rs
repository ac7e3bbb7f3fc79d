//! `hapax doctor`: looks at everything `hapax serve` needs and says what to do about what is wrong.
//! It opens the store as `serve` would, migrations included, tries to write where `serve` writes, and changes nothing else.

mod redis;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use hapax_core::{Durability, Ledger, Time};
use hapax_store::postgres::Protection;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::time::timeout;

use crate::cli::Doctor;
use crate::config::{self, Config, Flags};
use crate::exit::{self, Failed};
use crate::out::{self, Field, Tone, plain};
use crate::store::{Database, Store};

const FREE_BYTES_WARN: u64 = 1 << 30;
const FREE_BYTES_FAIL: u64 = 64 << 20;
const CLOCK_WARN: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(5);

/// How a check went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    const fn as_str(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        }
    }

    const fn tone(self) -> Tone {
        match self {
            Verdict::Ok => Tone::Good,
            Verdict::Warn => Tone::Warn,
            Verdict::Fail => Tone::Bad,
        }
    }
}

/// One thing looked at.
#[derive(Debug)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do; empty if all is well.
    next: String,
}

impl Check {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            verdict: Verdict::Ok,
            found: found.into(),
            next: String::new(),
        }
    }

    fn warn(what: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            what,
            verdict: Verdict::Warn,
            found: found.into(),
            next: next.into(),
        }
    }

    fn fail(what: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            what,
            verdict: Verdict::Fail,
            found: found.into(),
            next: next.into(),
        }
    }

    fn row(&self) -> Vec<Field> {
        let verdict = (self.verdict.as_str().to_owned(), self.verdict.tone());
        vec![
            verdict,
            plain(&self.what),
            plain(&self.found),
            plain(&self.next),
        ]
    }
}

pub(super) async fn run(args: &Doctor) -> Result<()> {
    let flags = Flags {
        listen: args.listen.clone(),
        ..args.plain.store.flags()
    };
    let checks = match Config::load(&flags) {
        Ok(config) => checks(&config).await?,
        Err(why) => {
            let (found, next) = exit::told(&why);
            vec![Check::fail("config", found, next)]
        }
    };
    if args.plain.json {
        let items: Vec<_> = checks
            .iter()
            .map(|check| {
                let (status, found, next) = (check.verdict.as_str(), &check.found, &check.next);
                json!({"check": check.what, "status": status, "found": found, "next": next})
            })
            .collect();
        out::json(&json!({"items": items}))?;
    } else {
        let rows: Vec<_> = checks.iter().map(Check::row).collect();
        out::table(&["", "check", "found", "what to do"], &rows)?;
    }
    if checks.iter().any(|check| check.verdict == Verdict::Fail) {
        Err(Failed.into())
    } else {
        Ok(())
    }
}

async fn checks(config: &Config) -> Result<Vec<Check>> {
    let mut checks = vec![variables()?, folder(&config.data)];
    checks.extend(token(&config.data));
    checks.push(disk(&config.data).await);
    for (pattern, meant) in config.doubtful_patterns() {
        let found = format!(
            "routes: '{pattern}' matches a path with these dashes, none with slashes in their place"
        );
        let next = format!("if it is for a path with slashes, write '{meant}'");
        checks.push(Check::warn("config", found, next));
    }
    // Their schemas may be in files, which only a server reads.
    if let Err(why) = config.collections() {
        let next = "correct it; docs/guides/snapshots.md shows a whole table";
        checks.push(Check::fail("collections", why.to_string(), next));
    }
    checks.extend(redis::redis(config).await);
    checks.extend(database(config).await);
    checks.push(port(&config.listen).await);
    Ok(checks)
}

fn variables() -> Result<Check> {
    let misspelt = config::misspelt_variables()?;
    if misspelt.is_empty() {
        return Ok(Check::ok("config", "every key and variable is known"));
    }
    let (names, near): (Vec<String>, Vec<String>) = misspelt.into_iter().unzip();
    Ok(Check::warn(
        "config",
        format!("unknown: {}", names.join(", ")),
        format!("did you mean {}?", near.join(", ")),
    ))
}

fn folder(data: &Path) -> Check {
    let shown = data.display().to_string();
    let Ok(found) = std::fs::metadata(data) else {
        return unmade(data);
    };
    if !found.is_dir() {
        return Check::fail(
            "data folder",
            format!("{shown} is not a folder"),
            "move it away, or set --data",
        );
    }
    if let Err(why) = try_to_write(data) {
        return Check::fail(
            "data folder",
            format!("{shown}: {why}"),
            "make it writable for this user, or set --data",
        );
    }
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Check::warn(
            "data folder",
            format!("{shown} has mode {mode:o}"),
            format!("chmod 700 {shown}"),
        );
    }
    Check::ok(
        "data folder",
        format!("{shown}, writable, for its owner alone"),
    )
}

/// A data folder that `serve` would have to make.
fn unmade(data: &Path) -> Check {
    let shown = data.display();
    match try_to_write(existing(data)) {
        Ok(()) => Check::ok(
            "data folder",
            format!("{shown} is not there yet; `hapax serve` makes it"),
        ),
        Err(why) => Check::fail(
            "data folder",
            format!("{shown} is not there, and cannot be made: {why}"),
            "set --data to a folder that this user can make",
        ),
    }
}

/// The folder nearest to `path` that is there.
fn existing(path: &Path) -> &Path {
    let there = path.ancestors().find(|above| above.exists());
    match there {
        Some(there) if !there.as_os_str().is_empty() => there,
        Some(_) | None => Path::new("."),
    }
}

/// Writes a file, and takes it away again.
fn try_to_write(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    std::fs::write(&probe, b"")?;
    std::fs::remove_file(&probe)
}

/// The token of the first start, if it is there: whoever reads it is the owner.
fn token(data: &Path) -> Option<Check> {
    let path = data.join("token");
    let shown = path.display();
    let mode = std::fs::metadata(&path).ok()?.permissions().mode() & 0o777;
    let for_others = mode & 0o077;
    Some(if for_others == 0 {
        Check::ok("token", format!("{shown}, for its owner alone"))
    } else {
        Check::warn(
            "token",
            format!(
                "{shown} has mode {mode:o}: others on this machine can read it and own the data"
            ),
            format!("chmod 600 {shown}"),
        )
    })
}

/// Asks `df`, the one portable program that knows.
async fn disk(data: &Path) -> Check {
    let existing = existing(data).to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        std::process::Command::new("df")
            .arg("-Pk")
            .arg(existing)
            .output()
    });
    let Ok(Ok(Ok(answer))) = timeout(WITHIN, asked).await else {
        return Check::warn(
            "disk",
            "df does not answer",
            "look at the free space yourself",
        );
    };
    let Some(free) = free_bytes(&String::from_utf8_lossy(&answer.stdout)) else {
        return Check::warn(
            "disk",
            "df says nothing readable",
            "look at the free space yourself",
        );
    };
    let found = format!("{} MiB free", free >> 20);
    match free {
        free if free < FREE_BYTES_FAIL => {
            Check::fail("disk", found, "make room: a full disk stops every write")
        }
        free if free < FREE_BYTES_WARN => Check::warn("disk", found, "make room soon"),
        _ => Check::ok("disk", found),
    }
}

fn free_bytes(df: &str) -> Option<u64> {
    let kib: u64 = df.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

async fn database(config: &Config) -> Vec<Check> {
    let database = match Database::of(config) {
        Ok(database) => database,
        Err(why) => {
            let (found, next) = exit::told(&why);
            return vec![Check::fail("database", found, next)];
        }
    };
    if let Database::Sqlite(path) = &database
        && !path.exists()
    {
        return vec![unmade_file(&database, path)];
    }
    let store = match timeout(WITHIN * 2, Store::open(config)).await {
        Ok(Ok(store)) => store,
        Ok(Err(why)) => {
            let mut found = ways(config, &database);
            found.push(unopened(&why));
            return found;
        }
        Err(_) => {
            let mut found = ways(config, &database);
            let silent = format!("{database} does not answer");
            found.push(Check::fail("database", silent, "is it running?"));
            return found;
        }
    };
    let mut found = ways(config, &database);
    found.push(opened(&database, store.ledger.as_ref()).await);
    found.push(durability(store.ledger.as_ref()));
    found.push(clock(store.ledger.now(), Time::from(SystemTime::now())));
    store.close().await;
    found
}

/// A file that `serve` would have to make.
fn unmade_file(database: &Database, path: &Path) -> Check {
    let folder = existing(path);
    match try_to_write(folder) {
        Ok(()) => Check::ok(
            "database",
            format!("{database} is not there yet; `hapax serve` makes it"),
        ),
        Err(why) => Check::fail(
            "database",
            format!("{database} cannot be made: {}: {why}", folder.display()),
            "set --data or --database to a place where this user may write",
        ),
    }
}

fn unopened(why: &anyhow::Error) -> Check {
    let (found, next) = exit::told(why);
    Check::fail("database", found, next)
}

async fn opened(database: &Database, ledger: &dyn Ledger) -> Check {
    match timeout(WITHIN, ledger.check()).await {
        Ok(Ok(())) => {
            let safe = match database {
                Database::Sqlite(_) => "",
                Database::Postgres(_) => ", restricted roles and row level security hold",
            };
            Check::ok(
                "database",
                format!("{database}, migrated, takes writes{safe}"),
            )
        }
        Ok(Err(why)) => Check::fail(
            "database",
            format!("{database}: {why}"),
            "see docs/errors for its code",
        ),
        Err(_) => Check::fail(
            "database",
            format!("{database} does not take writes"),
            "is something locking it?",
        ),
    }
}

/// The way to the server, and what its `sslmode` leaves open: of the database's URL, and of the direct one.
fn ways(config: &Config, database: &Database) -> Vec<Check> {
    let Database::Postgres(url) = database else {
        return Vec::new();
    };
    let urls = [
        ("sslmode", url),
        ("sslmode, direct", &config.database_direct),
    ];
    let given = urls.into_iter().filter(|(_, url)| !url.is_empty());
    let known = given.filter_map(|(what, url)| Some((what, Protection::of(url).ok()?)));
    known
        .map(|(what, protection)| way(what, protection))
        .collect()
}

fn way(what: &'static str, protection: Protection) -> Check {
    match protection {
        Protection::Local => Check::ok(what, "stays on this machine"),
        Protection::Verified => Check::ok(
            what,
            "encrypted; the server's certificate and name are verified",
        ),
        Protection::Unverified => Check::warn(
            what,
            "sslmode=prefer does not protect from anyone between here and the server: they can switch encryption off, or show a \
             certificate of their own, and then read and change everything",
            "set sslmode=verify-full",
        ),
        Protection::Plain => Check::warn(
            what,
            "sslmode=disable does not protect from anyone between here and the server: they read and change everything, bodies \
             and passwords included",
            "set sslmode=verify-full, unless the network in between is yours alone",
        ),
    }
}

fn durability(ledger: &dyn Ledger) -> Check {
    let word = ledger.durability().as_str();
    match ledger.durability() {
        Durability::Full => Check::ok("durability", word),
        Durability::BestEffort => Check::warn(
            "durability",
            word,
            "a failover of Redis may take acknowledged claims, which then run twice; redis_mode = \"cache\" takes none",
        ),
        Durability::Relaxed | Durability::Process => Check::warn(
            "durability",
            word,
            "power loss may take acknowledged writes; set durability = \"full\" (SQLite), or fsync and synchronous_commit (PostgreSQL)",
        ),
    }
}

fn clock(theirs: Time, ours: Time) -> Check {
    let apart = theirs.since(ours).max(ours.since(theirs));
    let found = format!(
        "{} ms between this machine and the store",
        apart.as_millis()
    );
    if apart > CLOCK_WARN {
        return Check::warn(
            "clock",
            found,
            "leases follow the store's clock; set both by NTP",
        );
    }
    Check::ok("clock", found)
}

async fn port(listen: &str) -> Check {
    let addresses: Vec<_> = match lookup_host(listen).await {
        Ok(addresses) => addresses.collect(),
        Err(why) => return Check::fail("port", format!("{listen}: {why}"), "use HOST:PORT"),
    };
    match TcpListener::bind(addresses.as_slice()).await {
        Ok(_) => Check::ok("port", format!("{listen} is free")),
        Err(why) if why.kind() == std::io::ErrorKind::AddrInUse => {
            if matches!(timeout(WITHIN, is_hapax(listen)).await, Ok(Ok(true))) {
                Check::ok("port", format!("a hapax serves on {listen}"))
            } else {
                Check::fail(
                    "port",
                    format!("{listen} is in use by another program"),
                    "stop it, or set --listen",
                )
            }
        }
        Err(why) => Check::fail("port", format!("{listen}: {why}"), "set --listen"),
    }
}

async fn is_hapax(listen: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(listen).await?;
    stream
        .write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).contains("\"name\":\"hapax\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_from_df() {
        let df = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 1000 400 600 40% /\n";
        assert_eq!(free_bytes(df), Some(600 * 1024));
        assert_eq!(free_bytes("nonsense"), None);
    }

    #[test]
    fn a_mode_that_leaves_the_way_open_is_a_warning_that_says_so() {
        for (protection, verdict, words) in [
            (Protection::Local, Verdict::Ok, "this machine"),
            (Protection::Verified, Verdict::Ok, "verified"),
            (
                Protection::Unverified,
                Verdict::Warn,
                "does not protect from",
            ),
            (Protection::Plain, Verdict::Warn, "does not protect from"),
        ] {
            let check = way("way", protection);
            assert_eq!(check.verdict, verdict);
            assert!(check.found.contains(words), "{check:?}");
        }
    }

    #[test]
    fn a_clock_that_is_off_is_a_warning_whichever_way() {
        let (early, late) = (Time::from_ms(0), Time::from_ms(2001));
        assert_eq!(clock(early, late).verdict, Verdict::Warn);
        assert_eq!(clock(late, early).verdict, Verdict::Warn);
        assert_eq!(clock(early, early).verdict, Verdict::Ok);
    }
}

//! A disk that errs or is full: callers are told to come again, nothing runs that could not be recorded, nothing that was
//! acknowledged is lost, and the program works again when the disk does.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{self, Clients, TOKEN};
use crate::http::{self, Answer};
use crate::program::{Program, Under, has_strace, log_of};
use crate::promise::look;
use crate::upstream::Upstream;

fn serve(data: &Path, under: &Under<'_>) -> Program {
    let program = Program::serve(data, under, |command| {
        command.env("HAPAX_TOKEN", TOKEN);
    });
    program.unwrap()
}

fn get(address: SocketAddr, path: &str) -> Option<Answer> {
    http::try_request(address, "GET", path, &[], b"")
}

/// A claim of a new key.
fn claim(address: SocketAddr) -> Option<Answer> {
    let key = uuid::Uuid::new_v4().to_string();
    let claim = json!({"key": key, "method": "POST", "path": "/disk", "body": {"filler": "x".repeat(5_000)}});
    client::post(address, "/v1/keys/claim", None, &claim).1
}

fn all_kept(data: &Path, clients: Clients) -> usize {
    let noted = clients.promised.into_inner().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let promises = noted.iter().map(|(_, promise)| promise);
    let found = runtime
        .unwrap()
        .block_on(look(&data.join("hapax.db"), promises));
    found.unwrap();
    noted.len()
}

/// The call fails from the n-th on: requests are refused with 503 and the program ends, to be started anew.
fn err_from(harm: &str) {
    if !has_strace() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = folder.path().join("data");
    assert_eq!(serve(&data, &Under::Nothing).stop(), Some(0));
    let trace = folder.path().join("trace");
    let program = serve(&data, &Under::Harm(harm, &trace));
    let clients = Clients::default();
    let mut rounds = 0;
    while clients.round(program.address).is_some() {
        rounds += 1;
        assert!(rounds < 200, "{harm}: the disk never fails");
    }
    // If a write of its own failed first, it was gone before it could refuse.
    if let Some(refused) = clients.refused.lock().unwrap().take() {
        let code = refused.refusal();
        assert_eq!(code, (503, "store_unavailable".to_owned()), "{harm}");
        assert!(refused.header("retry-after").is_some(), "{harm}");
    }
    assert_eq!(program.wait(), Some(1), "{harm}: it ends by itself");
    let log = std::fs::read_to_string(log_of(&data)).unwrap();
    assert!(log.contains("check the disk and restart"), "{harm}: {log}");

    let again = serve(&data, &Under::Nothing);
    assert_eq!(get(again.address, "/ready").unwrap().status, 200, "{harm}");
    assert_eq!(claim(again.address).unwrap().status, 200, "{harm}");
    assert_eq!(again.stop(), Some(0), "{harm}");
    let kept = all_kept(&data, clients);
    println!("{harm}: {kept} acknowledged before, none lost");
    assert!(kept > 0, "{harm}");
}

#[test]
fn a_disk_that_fails_to_sync_stops_the_program() {
    err_from("fdatasync:error=EIO:when=12+");
}

#[test]
fn a_disk_that_fails_to_write_is_told_and_loses_nothing() {
    err_from("pwrite64:error=EIO:when=150+");
}

/// A small disk of its own, in memory.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where mounting is not permitted.
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "hapax-small"])
            .arg(folder.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        println!("SKIPPED: mounting a small disk is not permitted here; run as root");
        None
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let mut filler = std::fs::File::create(self.0.path().join("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.unwrap().success());
    }
}

/// What `ask` answers once it is answered with this status.
fn eventually(status: u16, mut ask: impl FnMut() -> Option<Answer>) -> Answer {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask().filter(|answer| answer.status == status) {
            return answer;
        }
        assert!(Instant::now() < until, "never {status}: {:?}", ask());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_disk_is_told_as_503_and_is_got_over_without_a_new_start() {
    let Some(disk) = SmallDisk::mount("4m") else {
        return;
    };
    let data = disk.0.path().join("data");
    let program = serve(&data, &Under::Nothing);
    let clients = Clients::default();
    clients.round(program.address).unwrap();
    disk.fill();
    let refused = eventually(503, || claim(program.address));
    assert_eq!(refused.refusal(), (503, "store_unavailable".to_owned()));
    assert_eq!(get(program.address, "/ready").unwrap().status, 503);
    disk.free();
    eventually(200, || get(program.address, "/ready"));
    assert!(
        clients.round(program.address).is_some(),
        "there is room again"
    );
    assert_eq!(program.stop(), Some(0));
    all_kept(&data, clients);
}

#[test]
fn a_proxy_on_a_full_disk_passes_nothing_on() {
    let Some(disk) = SmallDisk::mount("4m") else {
        return;
    };
    let upstream = Upstream::start();
    let data = disk.0.path().join("data");
    let proxy = Program::start("proxy", &data, &Under::Nothing, |command| {
        command.args(["--upstream", &upstream.url()]);
    });
    let proxy = proxy.unwrap();
    let ask = |key: &str| {
        let headers = [("idempotency-key", key)];
        http::try_request(proxy.address, "POST", "/work", &headers, &[b'x'; 5_000])
    };
    assert_eq!(ask("before").unwrap().status, 201);
    disk.fill();
    let mut number = 0;
    let mut told = 1;
    // What little room is left in the log may still take some.
    loop {
        number += 1;
        assert!(number < 2_000, "the disk never fills");
        match ask(&format!("k{number}")).unwrap().status {
            201 => told += 1,
            503 => break,
            other => panic!("{other}"),
        }
    }
    let before = upstream.count();
    for number in 0..20 {
        assert_eq!(ask(&format!("later-{number}")).unwrap().status, 503);
    }
    assert_eq!(upstream.count(), before, "nothing was passed on");
    assert!(
        before <= told + 1,
        "at most the one whose answer found no room"
    );
    disk.free();
    eventually(201, || ask("after"));
    assert_eq!(
        ask("before").unwrap().body,
        b"call 1",
        "and what was told stands"
    );
    assert_eq!(proxy.stop(), Some(0));
}

//! The program dies at its n-th write, sync, cut or unlink, for every n of one full cycle: start, claim, complete, replay,
//! job, intent, snapshot, stop. After each death the real store finds what was acknowledged, and the program serves again.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::client::{Clients, TOKEN};
use crate::program::{Program, Under, has_strace};
use crate::promise::look;

const CALLS: [&str; 5] = ["pwrite64", "fdatasync", "fsync", "ftruncate", "unlink"];
const THREADS: usize = 2;
/// Rounds of requests in one cycle.
const ROUNDS: usize = 2;

/// What a cycle begins with. Calls are counted for each thread: the one that opens a new file makes the most of them,
/// and would hide those of the one that writes.
#[derive(Clone, Copy, Debug)]
enum From<'a> {
    Nothing,
    A(&'a Path),
}

/// How many deaths there were, and how much was acknowledged before them.
#[derive(Default)]
struct Tally {
    deaths: AtomicUsize,
    acknowledged: AtomicUsize,
}

fn serve(data: &Path, under: &Under<'_>) -> Result<Program, String> {
    Program::serve(data, under, |command| {
        command.env("HAPAX_TOKEN", TOKEN);
    })
}

/// One cycle in which the program dies at its n-th call of this name. False if it made fewer.
fn die(call: &str, n: usize, from: From<'_>, tally: &Tally) -> bool {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = folder.path().join("data");
    if let From::A(template) = from {
        std::fs::create_dir(&data).unwrap();
        for file in std::fs::read_dir(template).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), data.join(file.file_name())).unwrap();
        }
    }
    let harm = format!("{call}:signal=SIGKILL:when={n}");
    let trace = folder.path().join("trace");
    let clients = Clients::default();
    if let Ok(program) = serve(&data, &Under::Harm(&harm, &trace)) {
        let done = (0..ROUNDS).try_for_each(|_| clients.round(program.address));
        if program.stop() == Some(0) {
            assert!(done.is_some(), "{harm}: it lived and did not answer");
            return false;
        }
    }
    let noted = clients.promised.into_inner().unwrap();
    tally.deaths.fetch_add(1, Ordering::Relaxed);
    tally.acknowledged.fetch_add(noted.len(), Ordering::Relaxed);

    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let database = data.join("hapax.db");
    if database.exists() {
        let promises = noted.iter().map(|(_, promise)| promise);
        let found = runtime.block_on(look(&database, promises));
        found.unwrap_or_else(|wrong| panic!("{harm} from {from:?}: {wrong:?}"));
    } else {
        assert!(noted.is_empty(), "{harm}: promised without a file");
    }
    let again = serve(&data, &Under::Nothing).unwrap_or_else(|why| panic!("{harm}: {why}"));
    // Other keys: what was in flight is held until its lease is over.
    let fresh = Clients::from(1_000);
    assert!(
        fresh.round(again.address).is_some(),
        "{harm}: it serves again"
    );
    assert_eq!(again.stop(), Some(0), "{harm}");
    true
}

/// Dies at every `step`-th call of each name.
fn die_everywhere(step: usize) {
    if !has_strace() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let template = folder.path().join("data");
    assert_eq!(serve(&template, &Under::Nothing).unwrap().stop(), Some(0));
    for call in CALLS {
        for from in [From::Nothing, From::A(&template)] {
            let (tally, next, last) = (Tally::default(), AtomicUsize::new(0), Mutex::new(0));
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        loop {
                            let n = next.fetch_add(1, Ordering::Relaxed) * step + 1;
                            if !die(call, n, from, &tally) {
                                break;
                            }
                            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                            *last = n.max(*last);
                        }
                    });
                }
            });
            println!(
                "{call} from {}: {} deaths, the last at call {}; {} acknowledged before them, none lost",
                match from {
                    From::Nothing => "nothing",
                    From::A(_) => "a folder that is there",
                },
                tally.deaths.into_inner(),
                last.into_inner().unwrap(),
                tally.acknowledged.into_inner(),
            );
        }
    }
}

#[test]
fn a_death_at_any_call_loses_nothing_that_was_acknowledged() {
    die_everywhere(120);
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults nth"]
fn soak_a_death_at_every_call_loses_nothing_that_was_acknowledged() {
    let step = std::env::var("HAPAX_FAULTS_STEP").map_or(1, |step| step.parse().unwrap());
    die_everywhere(step);
}

//! The power is lost: from the calls of the real program, folders are made as a disk may hold them afterwards, and the
//! real store must find in each everything that was acknowledged before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use hapax_check::Dice;
use hapax_check::disk::{Call, Disk, Image, What, read_calls};

use crate::client::{Clients, TOKEN};
use crate::program::{Program, Under, has_strace, trace};
use crate::promise::{Promise, Wrong, look};

const CLIENTS: usize = 4;
const THREADS: usize = 2;

/// What the program did, and what it promised at which line.
struct Recording {
    folder: String,
    calls: Vec<Call>,
    /// For each line, the calls that begin or end there.
    lines: Vec<Vec<usize>>,
    promises: Vec<(usize, Promise)>,
}

impl Recording {
    /// Runs the program on a new folder as often as there are ends, with so many rounds of requests each time.
    fn make(durability: &str, ends: &[End], rounds: usize) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let data = folder.path().canonicalize().unwrap().join("data");
        let clients = Clients::default();
        let mut text = Vec::new();
        for (number, end) in ends.iter().enumerate() {
            let file = folder.path().join(format!("trace-{number}"));
            let program = Program::serve(&data, &Under::Watch(&file), |command| {
                command
                    .env("HAPAX_TOKEN", TOKEN)
                    .env("HAPAX_DURABILITY", durability);
            });
            let program = program.unwrap();
            std::thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| {
                        for _ in 0..rounds.div_ceil(CLIENTS) {
                            clients.round(program.address).unwrap();
                        }
                    });
                }
            });
            match end {
                End::Stop => assert_eq!(program.stop(), Some(0)),
                End::Kill => drop(program),
            }
            text.extend(trace(&file));
        }
        let promised = clients.promised.into_inner().unwrap();
        Self::read(data.to_str().unwrap(), &text, promised)
    }

    fn read(folder: &str, text: &[u8], noted: Vec<(String, Promise)>) -> Self {
        let calls = read_calls(text).unwrap();
        let count = calls
            .iter()
            .filter_map(|call| call.ended.max(Some(call.began)));
        let mut lines = vec![Vec::new(); count.max().unwrap() + 1];
        let mut sent: HashMap<String, usize> = HashMap::new();
        for (number, call) in calls.iter().enumerate() {
            lines[call.began].push(number);
            if let Some(ended) = call.ended.filter(|ended| *ended != call.began) {
                lines[ended].push(number);
            }
            if let Some(id) = answered(&call.what) {
                sent.insert(id, call.began);
            }
        }
        let at = |(id, promise)| (sent[&id], promise);
        let mut promises: Vec<_> = noted.into_iter().map(at).collect();
        promises.sort_by_key(|(line, _)| *line);
        Self {
            folder: folder.to_owned(),
            calls,
            lines,
            promises,
        }
    }

    /// How often the log was brought back into the file: writes to the file itself, followed by a sync.
    fn checkpoints(&self) -> usize {
        let file = format!("{}/hapax.db", self.folder);
        let syncs = |call: &&Call| matches!(&call.what, What::Sync { path } if *path == file);
        self.calls.iter().filter(syncs).count()
    }

    /// Loses the power at this many random lines, and checks what may be found.
    fn lose_power(&self, disk: Disk, images: usize, seed: u64) -> Tally {
        let mut dice = Dice::new(seed);
        let mut cuts: Vec<usize> = (0..images).map(|_| dice.index(self.lines.len())).collect();
        cuts.sort_unstable();
        let (give, take) = mpsc::sync_channel::<(usize, Image)>(4);
        let take = Arc::new(Mutex::new(take));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|_| {
                    let take = take.clone();
                    scope.spawn(move || self.work(&take))
                })
                .collect();
            let mut disk = disk;
            let mut cuts = cuts.into_iter().peekable();
            for (line, calls) in self.lines.iter().enumerate() {
                for call in calls {
                    disk.see(&self.calls[*call], line).unwrap();
                }
                while cuts.next_if_eq(&line).is_some() {
                    give.send((line, disk.image(&mut dice))).unwrap();
                }
            }
            drop(give);
            let tallies = workers.into_iter().map(|worker| worker.join().unwrap());
            tallies.fold(Tally::default(), Tally::and)
        })
    }

    fn work(&self, take: &Mutex<mpsc::Receiver<(usize, Image)>>) -> Tally {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut tally = Tally::default();
        loop {
            let next = take.lock().unwrap().recv();
            let Ok((line, image)) = next else {
                return tally;
            };
            let until = self.promises.partition_point(|(at, _)| *at <= line);
            let promises = || self.promises[..until].iter().map(|(_, promise)| promise);
            tally.images += 1;
            tally.promises += until;
            let Some(files) = image else {
                tally.lost += until;
                if until == 0 {
                    continue;
                }
                tally.note(line, "the folder itself is lost");
                continue;
            };
            let folder = memory_folder();
            for (name, bytes) in &files {
                // What a program maps is no write: the index of the log is made anew.
                if !name.ends_with("-shm") {
                    std::fs::write(folder.path().join(name), bytes).unwrap();
                }
            }
            let found = runtime.block_on(look(&folder.path().join("hapax.db"), promises()));
            match found {
                Ok(()) => {}
                Err(Wrong::Corrupt(why)) => {
                    tally.corrupt += 1;
                    tally.note(line, &format!("corrupt: {why}"));
                }
                Err(Wrong::Lost(lost)) => {
                    tally.lost += lost.len();
                    tally.note(line, &format!("{} lost, such as {:?}", lost.len(), lost[0]));
                }
            }
        }
    }
}

/// How a run of the program ends.
#[derive(Clone, Copy)]
enum End {
    Stop,
    Kill,
}

/// What was found in many folders.
#[derive(Default, Debug)]
struct Tally {
    images: usize,
    /// How often something acknowledged was looked for.
    promises: usize,
    lost: usize,
    corrupt: usize,
    first: Option<(usize, String)>,
}

impl Tally {
    fn note(&mut self, line: usize, what: &str) {
        self.first.get_or_insert_with(|| (line, what.to_owned()));
    }

    fn and(self, other: Self) -> Self {
        Self {
            images: self.images + other.images,
            promises: self.promises + other.promises,
            lost: self.lost + other.lost,
            corrupt: self.corrupt + other.corrupt,
            first: self.first.or(other.first),
        }
    }
}

/// The id that an answer of the program bears, if it promises something.
fn answered(what: &What) -> Option<String> {
    let What::Write {
        bytes, at: None, ..
    } = what
    else {
        return None;
    };
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]);
    let head = head.strip_prefix("HTTP/1.1 2")?;
    let (_, id) = head.split_once("x-trace-id: ")?;
    Some(id.get(..32)?.to_owned())
}

/// A folder in memory where there is one: images are many, and nobody needs them again.
fn memory_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        PathBuf::from(memory)
    } else {
        std::env::temp_dir()
    };
    tempfile::tempdir_in(folder).unwrap()
}

/// The number in this variable, which `dev/faults` sets.
fn asked(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |number| number.parse().unwrap())
}

fn survive(runs: usize, ends: &[End], rounds: &[usize], images: usize) {
    if !has_strace() {
        return;
    }
    let (mut all, mut checkpoints, mut acknowledged) = (Tally::default(), 0, 0);
    for run in 0..runs {
        let recording = Recording::make("full", ends, rounds[run % rounds.len()]);
        checkpoints += recording.checkpoints();
        acknowledged += recording.promises.len();
        let disk = Disk::new(&recording.folder);
        let tally = recording.lose_power(disk, images.div_ceil(runs), run as u64);
        println!("run {run}: {tally:?}");
        all = all.and(tally);
    }
    println!(
        "{runs} recorded runs with {acknowledged} acknowledged and the file synced {checkpoints} times: {} folders after \
         power loss, {} looked for, {} lost, {} corrupt",
        all.images, all.promises, all.lost, all.corrupt
    );
    assert_eq!((all.lost, all.corrupt), (0, 0), "{:?}", all.first);
    assert!(
        all.promises > all.images,
        "the load was too light to mean anything"
    );
}

#[test]
fn what_was_acknowledged_survives_the_loss_of_power() {
    survive(1, &[End::Stop, End::Kill], &[24], 100);
}

#[test]
fn a_relaxed_ledger_loses_what_it_acknowledged_but_is_never_damaged() {
    if !has_strace() {
        return;
    }
    let recording = Recording::make("relaxed", &[End::Kill], 30);
    let tally = recording.lose_power(Disk::new(&recording.folder), 60, 1);
    println!("relaxed: {tally:?}");
    assert!(tally.lost > 0, "the check can fail");
    assert_eq!(tally.corrupt, 0, "{:?}", tally.first);
}

#[test]
fn syncs_that_are_left_out_are_noticed_be_it_of_the_log_or_of_the_file() {
    if !has_strace() {
        return;
    }
    // The second run begins a new log, so that the file must hold what the first one wrote.
    let recording = Recording::make("full", &[End::Stop, End::Kill], 16);
    for end in ["/hapax.db-wal", "/hapax.db"] {
        let disk = Disk::new(&recording.folder).lying_about(end);
        let tally = recording.lose_power(disk, 60, 1);
        println!("without syncs of {end}: {tally:?}");
        assert!(tally.lost + tally.corrupt > 0, "the check can fail: {end}");
    }
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults power 10000"]
fn soak_what_was_acknowledged_survives_the_loss_of_power() {
    let images = asked("HAPAX_FAULTS_IMAGES", 1_000);
    // The long ones pass the size at which the log is brought back into the file by itself.
    let ends = [End::Stop, End::Kill, End::Stop];
    survive(
        asked("HAPAX_FAULTS_RUNS", 5),
        &ends,
        &[80, 16, 16, 16, 16],
        images,
    );
}

//! Where a page is run: a new folder, a bash of its own, `hapax` on the PATH, and free ports in place of those it names.
//!
//! - All blocks of a page share one shell, so a variable of one is there in the next. A command that fails ends the page.
//! - A port that is named as `127.0.0.1:PORT` is another, free one here, in commands and in what they print; 8088 is also
//!   where `hapax serve` listens without being told. `127.0.0.1:5432/hapax` is a new database of dev/with-postgres.
//! - A command that ends in `&` is a server: the next block waits for its line `listening on`. When the page is over it is
//!   sent SIGTERM by its own id.
//! - `cargo run --release` and `./test` are what CI itself runs. Here a server of the program under test stands in for the
//!   first, and the second is passed over.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::page::{Shown, Step};
use super::root;

/// How pages write an address of this machine.
const LOOPBACK: &str = "127.0.0.1:";
/// How long a page may take.
const PAGE_MAX: Duration = Duration::from_secs(240);
/// How many pages may run at once without meeting on a port.
const PAGES_MAX: u16 = 32;

/// Variables that would change what the program does.
const FOREIGN: [&str; 10] = [
    "EMAIL_IMPORT_ROOT",
    "OPENAI_BASE_URL",
    "LITELLM_MASTER_KEY",
    "T1_DEFAULT_MODEL",
    "T1_BATCH_MODEL",
    "T1_BATCH_SYNC_INTERVAL_MS",
    "EXECUTE_ACTIONS",
    "GATEWAY_BASE_URL",
    "GATEWAY_BEARER_TOKEN",
    "GATEWAY_TIMEOUT_SECONDS",
];

/// What the shell is told first. Every block is a file whose lines have the numbers that they have in the page.
const PROLOGUE: &str = r#"
set -eEu -o pipefail
block() {
    place=$1
    if [ -s ".docs/$place.servers" ]; then
        . ".docs/$place.sh" >".docs/$place.out" 2>".docs/$place.err"
        answering
    else
        . ".docs/$place.sh" >".docs/$place.out" 2>&1
    fi
    : >".docs/$place.done"
}
# Waits until every server of the block has said where it listens. Each line names the file in which it says so.
answering() {
    local file
    while read -r file; do
        for _ in $(seq 600); do
            if grep -qs '^listening on ' "$file"; then continue 2; fi
            [ -n "$(jobs -pr)" ] || break
            sleep 0.1
        done
        echo "a server ended, or did not say within a minute where it listens" >>".docs/$place.err"
        return 1
    done <".docs/$place.servers"
}
ended() {
    trap - ERR
    set +e
    local pid
    for pid in $(jobs -p); do kill -TERM "$pid" 2>/dev/null; done
    for pid in $(jobs -p); do
        for _ in $(seq 150); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null
    done
    wait
}
trap 'echo "line $LINENO, exit code $?: $BASH_COMMAND" >.docs/failed' ERR
trap ended EXIT
"#;

/// A page on its stage.
pub(crate) struct Stage {
    folder: TempDir,
    /// The ports that the page names, and the free ones that they are here.
    ports: BTreeMap<u16, u16>,
    /// Other things that the page says, and what they are here.
    here: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

impl Stage {
    /// A new folder in which the files of the project that pages name are there too. `place` is the page's own number.
    pub(crate) fn new(program: &Path, page: &str, place: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["docs", "examples", "spec", "dev"] {
            symlink(root().join(name), folder.path().join(name)).unwrap();
        }
        let own = folder.path().join(".docs");
        fs::create_dir_all(own.join("bin")).unwrap();
        symlink(program, own.join("bin/hapax")).unwrap();
        let ports = free_ports(&named_ports(page), place);
        let listen = ports.get(&8088).map_or_else(
            || "127.0.0.1:0".to_owned(),
            |port| format!("127.0.0.1:{port}"),
        );
        Self {
            folder,
            ports,
            here: Vec::new(),
            variables: vec![("HAPAX_LISTEN".to_owned(), listen)],
        }
    }

    /// Where the page says `named`, it is `actual` here.
    pub(crate) fn replace(mut self, named: &str, actual: &str) -> Self {
        self.here.push((named.to_owned(), actual.to_owned()));
        self
    }

    /// The text as it is here, in one pass: what was replaced is not looked at again.
    fn translate(&self, text: &str) -> String {
        let (mut translated, mut rest) = (String::new(), text);
        while let Some(first) = rest.chars().next() {
            let known = self.here.iter().find(|(named, _)| rest.starts_with(named));
            if let Some((named, actual)) = known {
                translated.push_str(actual);
                rest = &rest[named.len()..];
            } else if let Some((digits, port)) = rest.strip_prefix(LOOPBACK).and_then(port_of)
                && let Some(free) = self.ports.get(&port)
            {
                write!(translated, "{LOOPBACK}{free}").unwrap();
                rest = &rest[LOOPBACK.len() + digits..];
            } else {
                translated.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        translated
    }

    /// Runs the steps.
    ///
    /// # Errors
    /// The first command that failed or printed something else, with its line and what it printed.
    pub(crate) fn run(&self, steps: &[Step]) -> Result<(), String> {
        let own = self.folder.path().join(".docs");
        let mut script = PROLOGUE.to_owned();
        for (place, step) in steps.iter().enumerate() {
            match step {
                Step::File { name, text } => {
                    let kept = format!("{place}.file");
                    fs::write(own.join(&kept), self.translate(text)).unwrap();
                    writeln!(script, "cp '.docs/{kept}' '{name}'").unwrap();
                }
                Step::Run { line, text, .. } => {
                    let text = self.translate(&stand_in(text));
                    let padded = format!("{}{text}", "\n".repeat(line - 1));
                    fs::write(own.join(format!("{place}.sh")), padded).unwrap();
                    let servers = servers(&text, &format!(".docs/{place}.out"));
                    fs::write(own.join(format!("{place}.servers")), servers).unwrap();
                    writeln!(script, "block {place}").unwrap();
                }
            }
        }
        fs::write(own.join("page.sh"), script).unwrap();
        let ended = self.perform();
        self.judge(steps, ended)
    }

    /// Whether the shell came to its end in time.
    fn perform(&self) -> bool {
        let own = self.folder.path().join(".docs");
        let mut command = Command::new("bash");
        command
            .arg(".docs/page.sh")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(own.join("shell")).unwrap())
            // So that what is left of it can be ended together.
            .process_group(0);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("HAPAX_") || FOREIGN.contains(&name.as_str()) {
                command.env_remove(name);
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", own.join("bin").display()))
            .env("LC_ALL", "C.UTF-8")
            .envs(self.variables.iter().cloned());
        let mut shell = command.spawn().unwrap();
        let until = Instant::now() + PAGE_MAX;
        while shell.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                let group = format!("-{}", shell.id());
                let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
                assert!(killed.unwrap().success(), "the page's own shell is killed");
                shell.wait().unwrap();
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    fn judge(&self, steps: &[Step], ended: bool) -> Result<(), String> {
        for (place, step) in steps.iter().enumerate() {
            let Step::Run { line, text, shown } = step else {
                continue;
            };
            let printed = self.read(&format!("{place}.out"));
            let told = |why: &str| {
                let shown = match shown {
                    None => String::new(),
                    Some(Shown::Text(text) | Shown::Json(text)) => {
                        format!("\n--- the page shows:\n{}", self.translate(text))
                    }
                };
                Err(format!(
                    "line {line}: {why}\n{text}{shown}\n--- it printed:\n{printed}{}{}",
                    self.read(&format!("{place}.err")),
                    self.read("shell"),
                ))
            };
            if !self
                .folder
                .path()
                .join(format!(".docs/{place}.done"))
                .exists()
            {
                return told(&match (ended, self.read("failed")) {
                    (false, _) => format!("not done within {} s", PAGE_MAX.as_secs()),
                    (true, failed) if failed.is_empty() => "the shell ended here".to_owned(),
                    (true, failed) => failed.trim_end().to_owned(),
                });
            }
            match shown {
                Some(shown) if !self.here_shown(shown).fits(&printed) => {
                    return told("it printed something else");
                }
                None if printed.contains("\"error\":{\"code\"") => {
                    return told("a refusal that the page does not show");
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn here_shown(&self, shown: &Shown) -> Shown {
        match shown {
            Shown::Text(text) => Shown::Text(self.translate(text)),
            Shown::Json(text) => Shown::Json(self.translate(text)),
        }
    }

    /// A file of ours; empty if it is not there.
    fn read(&self, name: &str) -> String {
        let path = self.folder.path().join(".docs").join(name);
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The files in which the servers of a block say where they listen: one line each, `printed` unless it is sent elsewhere.
fn servers(text: &str, printed: &str) -> String {
    let files: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_suffix(" &"))
        .map(|command| {
            let elsewhere = command.split_once(" > ").map(|(_, file)| file);
            let file = elsewhere.and_then(|file| file.split(' ').next());
            file.unwrap_or(printed)
        })
        .collect();
    let here = files.iter().filter(|file| **file == printed).count();
    assert!(here < 2, "one server in a block may print here: {text}");
    files.iter().flat_map(|file| [file, "\n"]).collect()
}

/// What is run in place of the two commands that CI runs itself.
fn stand_in(text: &str) -> String {
    text.lines()
        .map(|line| {
            let command = line.split(" #").next().unwrap_or_default().trim_end();
            match command {
                "cargo run --release" => "hapax serve &\n".to_owned(),
                "./test" => ":\n".to_owned(),
                _ => format!("{line}\n"),
            }
        })
        .collect()
}

/// The port that a text begins with, and how many digits it has.
fn port_of(text: &str) -> Option<(usize, u16)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((digits, text[..digits].parse().ok()?))
}

/// The ports of this machine that a page names.
fn named_ports(page: &str) -> Vec<u16> {
    let places = page.split(LOOPBACK).skip(1).filter_map(port_of);
    places
        .map(|(_, port)| port)
        .filter(|port| *port != 0)
        .collect()
}

/// A free port for each. Below the range from which the system takes ports of its own accord, and in a class of its own for
/// every page, so that pages that run at the same time do not meet.
fn free_ports(named: &[u16], place: u16) -> BTreeMap<u16, u16> {
    assert!(place < PAGES_MAX, "more pages than ports are set apart for");
    let mut seed = uuid::Uuid::new_v4().as_u128();
    let mut free = BTreeMap::new();
    for named in named {
        while !free.contains_key(named) {
            let step = u16::try_from(seed % 300).unwrap();
            seed = seed.rotate_right(9) ^ u128::from(step);
            let port = 10_000 + step * PAGES_MAX + place;
            if !free.values().any(|taken| *taken == port)
                && TcpListener::bind(("127.0.0.1", port)).is_ok()
            {
                free.insert(*named, port);
            }
        }
    }
    free
}

#[test]
fn what_is_named_is_replaced_once_and_nothing_else_is() {
    let page = "127.0.0.1:1 127.0.0.1:8088/x 127.0.0.1:80 127.0.0.1:5432/hapax_restored";
    let stage = Stage {
        folder: tempfile::tempdir().unwrap(),
        ports: BTreeMap::from([(1, 12_000), (8088, 8088 * 2)]),
        here: vec![(
            "127.0.0.1:5432/hapax".to_owned(),
            "127.0.0.1:1/h".to_owned(),
        )],
        variables: Vec::new(),
    };
    let here = "127.0.0.1:12000 127.0.0.1:16176/x 127.0.0.1:80 127.0.0.1:1/h_restored";
    assert_eq!(stage.translate(page), here);
    assert_eq!(named_ports(page), [1, 8088, 80, 5432]);
    let ports = free_ports(&[8088, 8089, 8088], 29);
    assert_eq!(ports.len(), 2);
    assert!(ports.values().all(|port| (10_000..20_000).contains(port)));
}

//! Small files that are made durable together: whoever comes while some are, waits for the next round, and one round
//! serves all who waited. It knows what comes before what and nothing of what the files are.
//!
//! A round is: every content is made durable, then every file gets its name, then every name is made durable. Alone, each
//! of these is a sync of its own; for several it is one sync of the file system. That is done only where it is known to
//! make everything durable and to tell of every error.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::error::Error;
use super::folder::{Folder, Names};
use super::rounds::{Which, sync_folder, which};
use super::stream::off;

/// What is larger is looked at and synced by itself, and only its name is made durable together with others.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// Something that gets a name. Its functions are called in this order, each once, and what fails is not gone on with.
pub(super) trait Chore: Send + 'static {
    /// What is known when it is over.
    type Made: Send + 'static;

    /// Looks at what is there. If it has done so before, it does nothing.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn look(&mut self, names: Names) -> io::Result<()>;

    /// The file whose content has to be durable before it has its name, if it is not.
    fn content(&self) -> Option<&File>;

    /// Takes note that the content is durable.
    fn content_is_synced(&mut self);

    /// Gives it its name, and says in which folder that is.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn name(&mut self, names: Names) -> io::Result<Option<&OwnedFd>>;

    /// Does what is left when its name is durable.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn end(self) -> io::Result<Self::Made>;
}

/// Does a chore by itself.
fn alone<C: Chore>(mut chore: C) -> io::Result<C::Made> {
    prepare(&mut chore)?;
    if let Some(folder) = chore.name(Names::Each)? {
        sync_folder(folder)?;
    }
    chore.end()
}

/// Does what of a chore may take long.
fn prepare<C: Chore>(chore: &mut C) -> io::Result<()> {
    chore.look(Names::Each)?;
    if let Some(file) = chore.content() {
        file.sync_all()?;
    }
    chore.content_is_synced();
    Ok(())
}

/// A chore that waits for its round, whatever it makes.
trait Waiting: Send {
    fn look(&mut self) -> io::Result<()>;
    fn has_content(&self) -> bool;
    fn name(&mut self) -> io::Result<()>;
    fn alone(self: Box<Self>);
    fn end(self: Box<Self>, so_far: io::Result<()>);
}

struct Asked<C: Chore> {
    chore: C,
    answer: oneshot::Sender<io::Result<C::Made>>,
}

impl<C: Chore> Waiting for Asked<C> {
    fn look(&mut self) -> io::Result<()> {
        self.chore.look(Names::Together)
    }

    fn has_content(&self) -> bool {
        self.chore.content().is_some()
    }

    fn name(&mut self) -> io::Result<()> {
        self.chore.content_is_synced();
        self.chore.name(Names::Together).map(drop)
    }

    fn alone(self: Box<Self>) {
        // Whoever asked may be gone; what is done is done.
        let _ = self.answer.send(alone(self.chore));
    }

    fn end(self: Box<Self>, so_far: io::Result<()>) {
        let Self { chore, answer } = *self;
        let _ = answer.send(so_far.and_then(|()| chore.end()));
    }
}

/// The rounds of one file system.
#[derive(Debug)]
pub(super) struct Together {
    disk: Arc<Disk>,
}

struct Disk {
    /// Open since before anything was written: it is told of every error since then, and by nobody else's rounds.
    root: OwnedFd,
    device: i128,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Box<dyn Waiting>>,
    is_running: bool,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl Together {
    /// The rounds of the file system that `folder` is on; `None` if it cannot be trusted to be synced as a whole.
    pub(super) fn of(folder: &Folder) -> Option<Self> {
        let root = folder.reopened().ok()?;
        if !trusted::is(&root) {
            return None;
        }
        let (device, _) = which(&root).ok()?;
        let queue = Mutex::default();
        Some(Self {
            disk: Arc::new(Disk {
                root,
                device,
                queue,
            }),
        })
    }

    /// Does a chore in the next round. Dropping the future leaves it to the round.
    async fn join<C: Chore>(&self, chore: C) -> io::Result<C::Made> {
        let (answer, answered) = oneshot::channel();
        let is_idle = {
            let mut queue = self.disk.queue();
            queue.waiting.push(Box::new(Asked { chore, answer }));
            !std::mem::replace(&mut queue.is_running, true)
        };
        if is_idle {
            let running = Running::of(Arc::clone(&self.disk));
            // Nobody joins it: it is over when those who wait for their answers have them.
            drop(tokio::task::spawn_blocking(move || running.run()));
        }
        let ended = |_| io::Error::other("a round of syncs ended before its time");
        answered.await.map_err(ended)?
    }
}

/// Does a chore away from the threads that wait for sockets: in a round if there are any and its folder is on their file
/// system, else by itself. A large one keeps no round waiting.
pub(super) async fn together<C: Chore>(
    rounds: Option<&Together>,
    (folder, size): (&Folder, u64),
    mut chore: C,
) -> Result<io::Result<C::Made>, Error> {
    let Some(rounds) = rounds.filter(|rounds| rounds.disk.has(folder)) else {
        return off(move || alone(chore)).await;
    };
    if size > SMALL_BYTES_MAX {
        let prepared = off(move || prepare(&mut chore).map(|()| chore)).await?;
        match prepared {
            Ok(prepared) => chore = prepared,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(rounds.join(chore).await)
}

/// Rounds on their way. However they end, the next who comes begins anew.
struct Running {
    disk: Arc<Disk>,
    is_over: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            // Those who wait are told by the end of their channels.
            let mut queue = self.disk.queue();
            queue.is_running = false;
            queue.waiting.clear();
        }
    }
}

impl Running {
    fn of(disk: Arc<Disk>) -> Self {
        Self {
            disk,
            is_over: false,
        }
    }

    /// Rounds until nobody waits.
    fn run(mut self) {
        loop {
            let mut waiting = {
                let mut queue = self.disk.queue();
                if queue.waiting.is_empty() {
                    queue.is_running = false;
                    break;
                }
                std::mem::take(&mut queue.waiting)
            };
            if waiting.len() == 1 {
                waiting.drain(..).for_each(Waiting::alone);
            } else {
                self.disk.round(waiting);
            }
        }
        self.is_over = true;
    }
}

impl Disk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn round(&self, mut waiting: Vec<Box<dyn Waiting>>) {
        waiting = each(waiting, |chore| chore.look());
        if waiting.iter().any(|chore| chore.has_content())
            && let Err(error) = self.sync()
        {
            return tell(waiting, &error);
        }
        waiting = each(waiting, |chore| chore.name());
        match self.sync() {
            Ok(()) => waiting.into_iter().for_each(|chore| chore.end(Ok(()))),
            Err(error) => tell(waiting, &error),
        }
    }

    fn has(&self, folder: &Folder) -> bool {
        folder
            .which()
            .is_ok_and(|(device, _): Which| device == self.device)
    }

    fn sync(&self) -> io::Result<()> {
        trusted::sync(&self.root)
    }
}

/// Those with whom it goes well. The others are told.
fn each(
    waiting: Vec<Box<dyn Waiting>>,
    mut act: impl FnMut(&mut dyn Waiting) -> io::Result<()>,
) -> Vec<Box<dyn Waiting>> {
    let mut well = Vec::with_capacity(waiting.len());
    for mut chore in waiting {
        match act(&mut *chore) {
            Ok(()) => well.push(chore),
            Err(error) => chore.end(Err(error)),
        }
    }
    well
}

/// Nobody can tell whose error it is, so it is everybody's.
fn tell(waiting: Vec<Box<dyn Waiting>>, error: &io::Error) {
    for chore in waiting {
        chore.end(Err(io::Error::new(error.kind(), error.to_string())));
    }
}

/// File systems of which it is known what a sync of all of them means.
#[cfg(target_os = "linux")]
mod trusted {
    use std::io;
    use std::os::fd::OwnedFd;

    /// Drivers that wait for the disk's own cache too. Others may not, as that of ext2, or pass a sync on to nobody, as
    /// those in user space.
    const KINDS: [&str; 2] = ["ext4", "xfs"];
    /// The first kernel whose sync of a file system tells of what could not be written.
    const KERNEL: (u32, u32) = (5, 8);

    pub(super) fn is(root: &OwnedFd) -> bool {
        let Ok(stat) = rustix::fs::fstat(root) else {
            return false;
        };
        let (major, minor) = (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        );
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let mounts = read("/proc/self/mountinfo");
        kind(&mounts, &format!("{major}:{minor}")).is_some_and(|kind| KINDS.contains(&kind))
            && version(&read("/proc/sys/kernel/osrelease")).is_some_and(|kernel| kernel >= KERNEL)
    }

    /// The driver of the device. Its number stands third in a line, the driver behind a dash of its own.
    fn kind<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
        mounts.lines().find_map(|line| {
            let (place, what) = line.split_once(" - ")?;
            let is_it = place.split(' ').nth(2) == Some(device);
            what.split(' ').next().filter(|_| is_it)
        })
    }

    pub(super) fn sync(root: &OwnedFd) -> io::Result<()> {
        Ok(rustix::fs::syncfs(root)?)
    }

    fn version(release: &str) -> Option<(u32, u32)> {
        let mut numbers = release.split(|sign: char| !sign.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_device_is_found_among_the_mounts() {
            let mounts = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                          30 21 0:26 / /sys rw - sysfs sysfs rw\n\
                          41 21 0:44 / /merged rw - overlay overlay rw,lowerdir=/a\n";
            assert_eq!(kind(mounts, "254:0"), Some("ext4"));
            assert_eq!(kind(mounts, "0:44"), Some("overlay"));
            assert_eq!(kind(mounts, "8:1"), None);
        }

        #[test]
        fn a_release_is_read_as_its_version() {
            for (release, read) in [
                ("6.18.44-fc\n", Some((6, 18))),
                ("5.8.0", Some((5, 8))),
                ("4.18.0-553.el8.x86_64", Some((4, 18))),
                ("", None),
                ("none", None),
            ] {
                assert_eq!(version(release), read, "{release}");
            }
            assert!((4, 18) < KERNEL && (5, 10) > KERNEL);
        }
    }
}

/// Elsewhere nothing is known, so everything is synced by itself.
#[cfg(not(target_os = "linux"))]
mod trusted {
    use std::io;
    use std::os::fd::OwnedFd;

    pub(super) fn is(_: &OwnedFd) -> bool {
        false
    }

    pub(super) fn sync(_: &OwnedFd) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A chore that tells what is done with it.
    struct Told {
        name: &'static str,
        tell: mpsc::Sender<String>,
        file: Option<File>,
        fails_at: &'static str,
    }

    impl Told {
        fn alone(tell: mpsc::Sender<String>, file: Option<File>) -> Self {
            Self {
                name: "a",
                tell,
                file,
                fails_at: "",
            }
        }

        fn step(&self, step: &str) -> io::Result<()> {
            self.tell.send(format!("{step} {}", self.name)).unwrap();
            if self.fails_at == step {
                return Err(io::Error::other(step.to_owned()));
            }
            Ok(())
        }
    }

    impl Chore for Told {
        type Made = &'static str;

        fn look(&mut self, _: Names) -> io::Result<()> {
            self.step("look")
        }

        fn content(&self) -> Option<&File> {
            self.file.as_ref()
        }

        fn content_is_synced(&mut self) {
            self.file = None;
        }

        fn name(&mut self, _: Names) -> io::Result<Option<&OwnedFd>> {
            assert!(self.file.is_none(), "its content is durable before");
            self.step("name").map(|()| None)
        }

        fn end(self) -> io::Result<&'static str> {
            self.step("end").map(|()| self.name)
        }
    }

    type Answered = oneshot::Receiver<io::Result<&'static str>>;

    fn disk() -> (tempfile::TempDir, Arc<Disk>) {
        let place = tempfile::tempdir().unwrap();
        let root = Folder::open(place.path()).unwrap().reopened().unwrap();
        let (device, queue) = (which(&root).unwrap().0, Mutex::default());
        let disk = Disk {
            root,
            device,
            queue,
        };
        (place, Arc::new(disk))
    }

    fn ask(disk: &Disk, chore: Told) -> Answered {
        let (answer, answered) = oneshot::channel();
        let mut queue = disk.queue();
        queue.waiting.push(Box::new(Asked { chore, answer }));
        queue.is_running = true;
        answered
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn in_a_round_every_content_comes_before_every_name_and_a_failure_is_only_its_own() {
        let (place, disk) = disk();
        let (tell, told) = mpsc::channel();
        let chore = |name, fails_at| Told {
            name,
            tell: tell.clone(),
            file: Some(File::create(place.path().join(name)).unwrap()),
            fails_at,
        };
        let answers = [("a", ""), ("b", "look"), ("c", "name"), ("d", "end")]
            .map(|(name, fails_at)| ask(&disk, chore(name, fails_at)));
        Running::of(Arc::clone(&disk)).run();

        let steps = "look a, look b, look c, look d, name a, name c, name d, end a, end d";
        let seen: Vec<String> = told.try_iter().collect();
        assert_eq!(seen.join(", "), steps);
        let got = answers.map(|answer| {
            answer
                .blocking_recv()
                .unwrap()
                .map_err(|why| why.to_string())
        });
        let failed = |at: &str| Err(at.to_owned());
        assert_eq!(
            got,
            [Ok("a"), failed("look"), failed("name"), failed("end")]
        );
        assert!(!disk.queue().is_running, "nobody waits any more");
    }

    #[test]
    fn those_whose_round_never_comes_are_told_and_the_next_begins_anew() {
        let (_place, disk) = disk();
        let answer = ask(&disk, Told::alone(mpsc::channel().0, None));
        drop(Running::of(Arc::clone(&disk)));
        assert!(answer.blocking_recv().is_err());
        assert!(!disk.queue().is_running);
    }

    #[test]
    fn one_that_comes_alone_is_synced_by_itself() {
        let (place, disk) = disk();
        let (tell, told) = mpsc::channel();
        let file = Some(File::create(place.path().join("a")).unwrap());
        let answer = ask(&disk, Told::alone(tell, file));
        Running::of(Arc::clone(&disk)).run();
        assert_eq!(told.try_iter().count(), 3);
        assert_eq!(answer.blocking_recv().unwrap().unwrap(), "a");
    }
}

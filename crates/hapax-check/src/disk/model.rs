//! One folder on a disk that keeps only what it was told to sync: bytes of files and names in folders.
//!
//! A write that no sync followed may be absent, whole, or there in some of its sectors only, each by itself. A name that
//! was made or taken away is sure only after a sync of its folder. A folder that is lost takes its files along.

use std::collections::{BTreeMap, HashMap};

use super::call::{Call, What};
use crate::dice::Dice;

/// What a disk writes as one.
const SECTOR: usize = 512;

/// What was done to the bytes of a file and is not sure yet.
#[derive(Clone, Debug)]
enum Change {
    Bytes { at: usize, bytes: Vec<u8> },
    Length(usize),
}

/// A file, whatever its names are.
#[derive(Clone, Default, Debug)]
struct File {
    sure: Vec<u8>,
    /// In their order, each with the line at which its call came back.
    unsure: Vec<(Option<usize>, Change)>,
    /// As the program sees it.
    length: usize,
}

/// The disk under one folder.
#[derive(Debug)]
pub struct Disk {
    folder: String,
    files: Vec<File>,
    /// For each name, what it may stand for: first what is sure, then what was done since.
    names: BTreeMap<String, Vec<Option<usize>>>,
    /// Whether the folder itself was made but is not sure.
    is_folder_unsure: bool,
    /// Where the next plain write to an open file goes.
    places: HashMap<(u32, String), usize>,
    /// Of which files, by the end of their names, it answers a sync without doing it.
    lies_about: Option<String>,
}

/// Files by name, as they may be found. `None` if the folder itself is lost.
pub type Image = Option<BTreeMap<String, Vec<u8>>>;

impl Disk {
    /// An empty disk on which this folder is made by the program.
    #[must_use]
    pub fn new(folder: &str) -> Self {
        Self {
            folder: folder.trim_end_matches('/').to_owned(),
            files: Vec::new(),
            names: BTreeMap::new(),
            is_folder_unsure: false,
            places: HashMap::new(),
            lies_about: None,
        }
    }

    /// The same disk, if it answered syncs of files whose names end so without doing them. To show that the check can fail.
    #[must_use]
    pub fn lying_about(mut self, end: &str) -> Self {
        self.lies_about = Some(end.to_owned());
        self
    }

    /// A call has come to this line: what it does is done now, and a sync counts when it comes back.
    ///
    /// # Errors
    /// A call that changes the folder in a way that is not modelled.
    pub fn see(&mut self, call: &Call, line: usize) -> Result<(), String> {
        if call.answer.is_some_and(|answer| answer < 0) {
            return Ok(());
        }
        if let What::Sync { path } = &call.what {
            let lies = self
                .lies_about
                .as_ref()
                .is_some_and(|end| path.ends_with(end.as_str()));
            if call.ended == Some(line) && !lies {
                self.sync(path, call.began);
            }
            return Ok(());
        }
        if call.began == line {
            self.change(call)?;
        }
        Ok(())
    }

    fn change(&mut self, call: &Call) -> Result<(), String> {
        match &call.what {
            What::Open { path, flags } => {
                let Some(name) = self.name(path) else {
                    return Ok(());
                };
                self.open(&name, flags, call);
            }
            What::Write { file, at, bytes } => {
                if self.name(&file.1).is_some() {
                    self.write(file, *at, bytes, call);
                }
            }
            What::Truncate { path, length } => {
                let length = usize::try_from(*length).map_err(|why| why.to_string())?;
                if let Some(file) = self.at(path) {
                    file.length = length;
                    file.unsure.push((call.ended, Change::Length(length)));
                }
            }
            What::Unlink { path } => {
                if let Some(name) = self.name(path) {
                    self.mean(name, None);
                }
            }
            What::Rename { from, to } => self.rename(from, to)?,
            What::Mkdir { path } => {
                if path.trim_end_matches('/') == self.folder {
                    self.is_folder_unsure = true;
                }
            }
            What::Other { name, rest } => {
                if rest.contains(&hex(&self.folder)) {
                    return Err(format!("{name} is not modelled"));
                }
            }
            What::Sync { .. } => {}
        }
        Ok(())
    }

    fn open(&mut self, name: &str, flags: &str, call: &Call) {
        let has = |flag: &str| flags.split('|').any(|one| one == flag);
        if has("O_CREAT") && self.now(name).is_none() {
            self.files.push(File::default());
            let made = Some(self.files.len() - 1);
            self.mean(name.to_owned(), made);
        }
        let path = format!("{}/{name}", self.folder);
        if let Some(file) = self.at(&path) {
            if has("O_TRUNC") && file.length > 0 {
                file.length = 0;
                file.unsure.push((call.ended, Change::Length(0)));
            }
            let place = if has("O_APPEND") { file.length } else { 0 };
            if let Some(number) = call.answer.and_then(|number| u32::try_from(number).ok()) {
                self.places.insert((number, path), place);
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        match (self.name(from), self.name(to)) {
            (Some(from), Some(to)) => {
                let file = self.now(&from);
                self.mean(from, None);
                self.mean(to, file);
                Ok(())
            }
            (None, None) => Ok(()),
            _ => Err(format!("{from} is moved across folders to {to}")),
        }
    }

    /// From now on a name stands for this file, or for none.
    fn mean(&mut self, name: String, file: Option<usize>) {
        let meanings = self.names.entry(name).or_insert_with(|| vec![None]);
        meanings.push(file);
    }

    fn write(&mut self, file: &(u32, String), at: Option<u64>, bytes: &[u8], call: &Call) {
        let written = call.answer.and_then(|length| usize::try_from(length).ok());
        let bytes = &bytes[..written.unwrap_or(bytes.len()).min(bytes.len())];
        let at = if let Some(at) = at.and_then(|at| usize::try_from(at).ok()) {
            at
        } else {
            let place = self.places.entry(file.clone()).or_default();
            let at = *place;
            *place += bytes.len();
            at
        };
        if let Some(file) = self.at(&file.1) {
            file.length = file.length.max(at + bytes.len());
            let bytes = bytes.to_vec();
            file.unsure.push((call.ended, Change::Bytes { at, bytes }));
        }
    }

    /// What had come back before the sync began is sure now.
    fn sync(&mut self, path: &str, began: usize) {
        let path = path.trim_end_matches('/');
        if path == self.folder {
            for meanings in self.names.values_mut() {
                meanings.drain(..meanings.len() - 1);
            }
            return;
        }
        if self
            .folder
            .rsplit_once('/')
            .is_some_and(|(above, _)| above == path)
        {
            self.is_folder_unsure = false;
            return;
        }
        if let Some(file) = self.at(path) {
            let unsure = std::mem::take(&mut file.unsure);
            for (ended, change) in unsure {
                if ended.is_some_and(|ended| ended < began) {
                    change.whole(&mut file.sure);
                } else {
                    file.unsure.push((ended, change));
                }
            }
        }
    }

    /// One folder that may be found if the power is lost now.
    #[must_use]
    pub fn image(&self, dice: &mut Dice) -> Image {
        // Chance alone would hardly ever leave out or keep all of many.
        let luck = match dice.below(8) {
            0 => Luck::None,
            1 => Luck::All,
            _ => Luck::Each,
        };
        if self.is_folder_unsure && luck.of(dice) == Kept::No {
            return None;
        }
        let mut image = BTreeMap::new();
        for (name, meanings) in &self.names {
            let means = match luck {
                Luck::None => meanings.first(),
                Luck::All => meanings.last(),
                Luck::Each => meanings.get(dice.index(meanings.len())),
            };
            if let Some(Some(file)) = means {
                image.insert(name.clone(), self.files[*file].found(luck, dice));
            }
        }
        Some(image)
    }

    /// The name of a file in the folder itself.
    fn name(&self, path: &str) -> Option<String> {
        let name = path.strip_prefix(&self.folder)?.strip_prefix('/')?;
        (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
    }

    /// The file that a name stands for as the program sees it.
    fn now(&self, name: &str) -> Option<usize> {
        self.names.get(name)?.last().copied().flatten()
    }

    fn at(&mut self, path: &str) -> Option<&mut File> {
        let file = self.now(&self.name(path)?)?;
        self.files.get_mut(file)
    }
}

fn hex(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut hex, byte| {
        // A String takes everything.
        let _ = write!(hex, "\\x{byte:02x}");
        hex
    })
}

#[derive(Clone, Copy)]
enum Luck {
    None,
    All,
    Each,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    No,
    Whole,
    Torn,
}

impl Luck {
    fn of(self, dice: &mut Dice) -> Kept {
        match self {
            Luck::None => Kept::No,
            Luck::All => Kept::Whole,
            Luck::Each => match dice.below(3) {
                0 => Kept::No,
                1 => Kept::Whole,
                _ => Kept::Torn,
            },
        }
    }
}

impl File {
    fn found(&self, luck: Luck, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.sure.clone();
        for (_, change) in &self.unsure {
            match luck.of(dice) {
                Kept::No => {}
                Kept::Whole => change.whole(&mut bytes),
                Kept::Torn => change.torn(&mut bytes, dice),
            }
        }
        bytes
    }
}

impl Change {
    fn whole(&self, file: &mut Vec<u8>) {
        match self {
            Change::Length(length) => file.resize(*length, 0),
            Change::Bytes { at, bytes } => {
                grow(file, at + bytes.len());
                file[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// Some of its sectors, as they lie on the disk.
    fn torn(&self, file: &mut Vec<u8>, dice: &mut Dice) {
        match self {
            // A length is one number: it is there or not.
            Change::Length(_) => {
                if dice.rarely(2) {
                    self.whole(file);
                }
            }
            Change::Bytes { at, bytes } => {
                grow(file, at + bytes.len());
                let mut from = *at;
                while from < at + bytes.len() {
                    let to = ((from / SECTOR + 1) * SECTOR).min(at + bytes.len());
                    if dice.rarely(2) {
                        file[from..to].copy_from_slice(&bytes[from - at..to - at]);
                    }
                    from = to;
                }
            }
        }
    }
}

fn grow(file: &mut Vec<u8>, length: usize) {
    if file.len() < length {
        file.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every call comes back before the next begins.
    fn seen(disk: Disk, whats: &[What]) -> Disk {
        let mut disk = disk;
        for (line, what) in whats.iter().enumerate() {
            let call = Call {
                began: line,
                ended: Some(line),
                answer: Some(match what {
                    What::Write { bytes, .. } => i64::try_from(bytes.len()).unwrap(),
                    _ => 3,
                }),
                what: what.clone(),
            };
            disk.see(&call, line).unwrap();
        }
        disk
    }

    fn images(disk: &Disk) -> std::collections::BTreeSet<Image> {
        let mut dice = Dice::new(1);
        (0..2000).map(|_| disk.image(&mut dice)).collect()
    }

    fn open() -> What {
        What::Open {
            path: "/d/f".to_owned(),
            flags: "O_RDWR|O_CREAT".to_owned(),
        }
    }

    fn write(byte: u8, sectors: usize) -> What {
        What::Write {
            file: (3, "/d/f".to_owned()),
            at: Some(0),
            bytes: vec![byte; sectors * SECTOR],
        }
    }

    fn sync(path: &str) -> What {
        What::Sync {
            path: path.to_owned(),
        }
    }

    #[test]
    fn a_write_that_is_not_synced_may_be_absent_whole_or_torn_at_sectors() {
        let disk = seen(Disk::new("/d"), &[open(), sync("/d"), write(7, 2)]);
        let (a, b) = (vec![7; SECTOR], vec![0; SECTOR]);
        let found = |bytes: Vec<u8>| Some([("f".to_owned(), bytes)].into());
        let expected = [
            found(Vec::new()),
            found([&a[..], &a].concat()),
            found([&a[..], &b].concat()),
            found([&b[..], &a].concat()),
            found([&b[..], &b].concat()),
        ];
        assert_eq!(images(&disk), expected.into());
    }

    #[test]
    fn what_is_synced_is_always_found_unless_the_disk_lies() {
        let calls = [open(), write(7, 2), sync("/d/f"), sync("/d")];
        let disk = seen(Disk::new("/d"), &calls);
        let whole = [("f".to_owned(), vec![7; 2 * SECTOR])];
        assert_eq!(images(&disk), [Some(whole.into())].into());
        let disk = seen(Disk::new("/d").lying_about("f"), &calls);
        assert!(images(&disk).contains(&Some([("f".to_owned(), Vec::new())].into())));
    }

    #[test]
    fn names_and_the_folder_itself_are_sure_only_after_a_sync_of_what_holds_them() {
        let mkdir = What::Mkdir {
            path: "/d".to_owned(),
        };
        let made = [mkdir, open(), sync("/d/f")];
        let empty = || Some([("f".to_owned(), Vec::new())].into());
        let disk = seen(Disk::new("/d"), &made);
        assert_eq!(images(&disk), [None, Some(BTreeMap::new()), empty()].into());
        let disk = seen(disk, &[sync("/"), sync("/d")]);
        assert_eq!(images(&disk), [empty()].into());
        let gone = What::Unlink {
            path: "/d/f".to_owned(),
        };
        let disk = seen(disk, &[gone]);
        assert_eq!(images(&disk), [Some(BTreeMap::new()), empty()].into());
    }

    #[test]
    fn a_sync_covers_only_what_had_come_back_before_it_began() {
        let mut disk = seen(Disk::new("/d"), &[open(), sync("/d")]);
        let slow = Call {
            began: 10,
            ended: Some(13),
            answer: Some(512),
            what: write(7, 1),
        };
        let early = Call {
            began: 11,
            ended: Some(12),
            answer: Some(0),
            what: sync("/d/f"),
        };
        disk.see(&slow, 10).unwrap();
        disk.see(&early, 12).unwrap();
        assert!(images(&disk).contains(&Some([("f".to_owned(), Vec::new())].into())));
        let late = Call {
            began: 14,
            ended: Some(15),
            ..early
        };
        disk.see(&late, 15).unwrap();
        assert_eq!(images(&disk).len(), 1);
    }
}

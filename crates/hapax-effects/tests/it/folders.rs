//! A folder with a downloader for one test, and what tests ask about it.

use std::path::PathBuf;
use std::time::Duration;

use hapax_core::job::JobId;
use hapax_effects::download::part::Owner;
use hapax_effects::download::{ContentHash, Downloader, Folder, Guard, Limits};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub(crate) struct Bench {
    pub(crate) downloader: Downloader,
    pub(crate) folder: Folder,
    pub(crate) place: TempDir,
}

/// Limits that make a test quick.
pub(crate) fn quick() -> Limits {
    Limits {
        rest: Duration::from_millis(1),
        idle_time: Duration::from_millis(300),
        connect_time: Duration::from_secs(2),
        try_time: Duration::from_secs(20),
        ..Limits::default()
    }
}

pub(crate) fn bench() -> Bench {
    bench_with(quick())
}

pub(crate) fn bench_with(limits: Limits) -> Bench {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    let guard = Guard::allow_private_addresses();
    let downloader = Downloader::new(folder.clone(), guard, limits).unwrap();
    Bench {
        downloader,
        folder,
        place,
    }
}

impl Bench {
    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.place.path().join(path)).unwrap()
    }

    /// The files in staging.
    pub(crate) fn staged(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.staging()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.place.path().join(".staging")
    }
}

pub(crate) fn owner(epoch: i64) -> Owner {
    Owner::of(&JobId::new("j-1").unwrap(), epoch)
}

/// Bytes that do not repeat soon, so that a wrong offset shows.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .collect()
}

pub(crate) fn sha(bytes: &[u8]) -> ContentHash {
    let digest = Sha256::digest(bytes);
    ContentHash::parse(&data_encoding::HEXLOWER.encode(&digest)).unwrap()
}

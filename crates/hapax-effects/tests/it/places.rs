//! Putting content in its place, twice, after crashes, and against what is there already.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use hapax_core::Tenant;
use hapax_core::job::JobId;
use hapax_effects::download::part::{Owner, Part, Version};
use hapax_effects::download::{Code, Error, Folder, Placed, Streamed, Wanted};

use crate::folders::{Bench, bench, noise, owner, sha};
use crate::hostile::{Hostile, Source};

async fn stream(bench: &Bench, url: &str, who: &Owner) -> Streamed {
    let wanted = Wanted::at(url);
    let downloader = &bench.downloader;
    downloader
        .stream(&bench.folder, who, &wanted, None, &|_, _| {})
        .await
        .unwrap()
}

async fn finalize(
    bench: &Bench,
    url: &str,
    who: &Owner,
    streamed: &Streamed,
) -> Result<Placed, Error> {
    let wanted = Wanted::at(url);
    bench
        .downloader
        .finalize(&bench.folder, who, &wanted, streamed)
        .await
}

async fn index(bench: &Bench, who: &Owner, placed: &Placed, names: (&str, &str)) -> String {
    bench
        .downloader
        .index(&bench.folder, who, &placed.sha256, names)
        .await
        .unwrap()
}

fn inode(bench: &Bench, path: &str) -> u64 {
    std::fs::metadata(bench.place.path().join(path))
        .unwrap()
        .ino()
}

fn other() -> Owner {
    Owner::of(&JobId::new("j-2").unwrap(), 1)
}

#[tokio::test]
async fn finalize_runs_twice_and_places_once() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let url = server.put("/a", Source::of(&body));
    let streamed = stream(&bench, &url, &owner(1)).await;
    let before = inode(&bench, ".staging/j-1.1.part");
    let placed = finalize(&bench, &url, &owner(1), &streamed).await.unwrap();
    assert_eq!(
        placed.object,
        format!("objects/{}/{}", sha(&body).shelf(), sha(&body))
    );
    assert_eq!((placed.deduped, placed.size), (false, 5000));
    assert!(bench.read(&placed.object) == body);
    let object = std::fs::metadata(bench.place.path().join(&placed.object)).unwrap();
    assert_eq!(
        (object.ino(), object.permissions().mode() & 0o777),
        (before, 0o444)
    );
    assert_eq!(
        finalize(&bench, &url, &owner(2), &streamed).await.unwrap(),
        placed,
        "and again"
    );
    assert_eq!(server.gets("/a").len(), 1);
}

#[tokio::test]
async fn the_same_content_from_elsewhere_is_a_duplicate_also_when_it_is_finalized_twice() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let (first, second) = (
        server.put("/a", Source::of(&body)),
        server.put("/b", Source::of(&body)),
    );
    let one = stream(&bench, &first, &owner(1)).await;
    let two = stream(&bench, &second, &other()).await;
    let placed = finalize(&bench, &first, &owner(1), &one).await.unwrap();
    let deduped = finalize(&bench, &second, &other(), &two).await.unwrap();
    assert_eq!((placed.deduped, deduped.deduped), (false, true));
    assert_eq!(
        finalize(&bench, &second, &other(), &two).await.unwrap(),
        deduped
    );
    assert_eq!(bench.staged(), ["j-2.1.part"]);
    for who in [owner(1), other()] {
        index(&bench, &who, &deduped, ("w-1", "a-1")).await;
    }
    assert_eq!(
        inode(&bench, "files/w-1/a-1"),
        inode(&bench, &placed.object)
    );
    assert_eq!(bench.staged(), Vec::<String>::new());
}

#[tokio::test]
async fn a_small_part_has_no_note_and_is_looked_at_before_it_is_placed() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let url = server.put("/a", Source::of(&body));
    let streamed = stream(&bench, &url, &owner(1)).await;
    assert_eq!(bench.staged(), ["j-1.1.part"]);
    // As long as it was, and another content.
    let part = bench.place.path().join(".staging/j-1.1.part");
    std::fs::write(&part, noise(5001).split_off(1)).unwrap();

    let placed = finalize(&bench, &url, &owner(2), &streamed).await.unwrap();
    assert!(bench.read(&placed.object) == body);
    assert_eq!(server.gets("/a").len(), 2, "it was fetched again");
    index(&bench, &owner(2), &placed, ("w-1", "a-1")).await;
    assert_eq!(bench.staged(), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_dead_lease_left_is_not_taken_for_the_same_content_from_elsewhere() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let url = server.put("/a", Source::of(&body));
    stream(&bench, &url, &owner(1)).await;
    // It died before that was recorded.
    let streamed = stream(&bench, &url, &owner(2)).await;
    assert_eq!(bench.staged(), ["j-1.2.part"]);
    let placed = finalize(&bench, &url, &owner(2), &streamed).await.unwrap();
    // And again.
    let again = finalize(&bench, &url, &owner(3), &streamed).await.unwrap();
    assert!(!again.deduped);
    assert_eq!(again, placed);
}

#[tokio::test]
async fn a_part_that_a_stalled_lease_holds_is_done_without() {
    for (length, gets) in [(5000, 2), (100_000, 1)] {
        let (server, bench, body) = (Hostile::start().await, bench(), noise(length));
        let url = server.put("/a", Source::of(&body));
        let streamed = stream(&bench, &url, &owner(1)).await;
        let part = bench.place.path().join(".staging/j-1.1.part");
        let held = std::fs::File::open(part).unwrap();
        held.try_lock().unwrap();

        let placed = finalize(&bench, &url, &owner(2), &streamed).await.unwrap();
        assert!(bench.read(&placed.object) == body);
        assert_eq!(
            server.gets("/a").len(),
            gets,
            "a small one is fetched again, another copied"
        );
    }
}

#[tokio::test]
async fn a_damaged_object_is_replaced_and_that_is_said() {
    for damaged in [b"half of it".to_vec(), vec![0; 5000]] {
        let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
        let url = server.put("/a", Source::of(&body));
        let streamed = stream(&bench, &url, &owner(1)).await;
        let shelf = bench.place.path().join("objects").join(sha(&body).shelf());
        std::fs::create_dir_all(&shelf).unwrap();
        std::fs::write(shelf.join(sha(&body).as_str()), damaged).unwrap();
        let placed = finalize(&bench, &url, &owner(1), &streamed).await.unwrap();
        assert_eq!((placed.healed, placed.deduped), (true, false));
        assert!(bench.read(&placed.object) == body);
    }
}

#[tokio::test]
async fn a_part_that_got_lost_is_fetched_again() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let url = server.put("/a", Source::of(&body));
    let streamed = stream(&bench, &url, &owner(1)).await;
    std::fs::remove_file(bench.staging().join("j-1.1.part")).unwrap();
    let placed = finalize(&bench, &url, &owner(1), &streamed).await.unwrap();
    assert!(bench.read(&placed.object) == body);

    let changed = noise(4000);
    let url = server.put("/b", Source::of(&changed));
    let streamed = stream(&bench, &url, &other()).await;
    std::fs::write(bench.staging().join("j-2.1.part"), b"cut").unwrap();
    let mut source = Source::of(&noise(3000));
    source.etag = Some("\"v2\"".to_owned());
    server.put("/b", source);
    let error = finalize(&bench, &url, &other(), &streamed)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::SizeMismatch, false),
        "{error}"
    );
}

#[tokio::test]
async fn index_runs_twice_and_names_once() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let url = server.put("/a", Source::of(&body));
    let streamed = stream(&bench, &url, &owner(1)).await;
    let placed = finalize(&bench, &url, &owner(1), &streamed).await.unwrap();
    let object = inode(&bench, &placed.object);
    let index = async |work: &str, artifact: &str| {
        index(&bench, &owner(1), &placed, (work, artifact)).await
    };
    let inode = |path: &str| inode(&bench, path);
    for _twice in 0..2 {
        let path = index("w-1", "a-1").await;
        assert_eq!(path, "files/w-1/a-1");
        assert_eq!(inode(&path), object, "a hard link");
    }
    let outside = index("../..", "../../../etc/passwd").await;
    assert_eq!(outside, "files/%2E.%2F../%2E.%2F..%2F..%2Fetc%2Fpasswd");
    assert_eq!(inode(&outside), object);

    std::fs::remove_file(bench.place.path().join("files/w-1/a-1")).unwrap();
    std::fs::write(bench.place.path().join("files/w-1/a-1"), b"an older one").unwrap();
    assert_eq!(
        inode(&index("w-1", "a-1").await),
        object,
        "it takes the place"
    );
    let names = std::fs::read_dir(bench.place.path().join("files/w-1"))
        .unwrap()
        .count();
    assert_eq!(names, 1, "nothing is left on its way");
}

#[tokio::test]
async fn no_symlink_is_followed() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let outside = tempfile::tempdir().unwrap();
    let url = server.put("/a", Source::of(&body));
    std::fs::write(outside.path().join("target"), b"precious").unwrap();

    // A link in the place of a part.
    let link = bench.staging().join("j-1.1.part");
    std::os::unix::fs::symlink(outside.path().join("target"), &link).unwrap();
    let wanted = Wanted::at(&url);
    let who = owner(1);
    let error = bench
        .downloader
        .stream(&bench.folder, &who, &wanted, None, &|_, _| {})
        .await;
    assert_eq!(error.unwrap_err().code(), Code::Disk);
    std::fs::remove_file(&link).unwrap();

    // A link in the place of a shelf and of a work.
    let streamed = stream(&bench, &url, &who).await;
    let shelf = bench.place.path().join("objects").join(sha(&body).shelf());
    std::os::unix::fs::symlink(outside.path(), &shelf).unwrap();
    assert_eq!(
        finalize(&bench, &url, &owner(1), &streamed)
            .await
            .unwrap_err()
            .code(),
        Code::Disk
    );
    std::fs::remove_file(&shelf).unwrap();
    let placed = finalize(&bench, &url, &owner(1), &streamed).await.unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.place.path().join("files/w-1")).unwrap();
    let names = ("w-1", "target");
    let refused = bench
        .downloader
        .index(&bench.folder, &who, &placed.sha256, names)
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::Disk);

    assert_eq!(
        std::fs::read(outside.path().join("target")).unwrap(),
        b"precious"
    );
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn tenants_share_nothing() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(5000));
    let url = server.put("/a", Source::of(&body));
    let tenant = "00000000-0000-0000-0000-000000000007"
        .parse::<Tenant>()
        .unwrap();
    let theirs = bench.downloader.folder_of(tenant).await.unwrap();
    let ours = bench.downloader.folder_of(Tenant::DEFAULT).await.unwrap();
    assert_eq!(ours.path(), bench.folder.path());
    let streamed = stream(&bench, &url, &owner(1)).await;
    finalize(&bench, &url, &owner(1), &streamed).await.unwrap();
    let found = async |folder: &Folder| {
        bench
            .downloader
            .find(folder, &sha(&body), None)
            .await
            .unwrap()
    };
    assert_eq!(
        (found(&ours).await, found(&theirs).await),
        (Some(5000), None)
    );
    assert_eq!(
        bench.downloader.resume(&theirs, &owner(2)).await.unwrap(),
        None
    );
}

fn version(length: u64) -> Version {
    Version {
        url: "http://example.org/".to_owned(),
        if_range: Some("\"v1\"".to_owned()),
        length: Some(length),
        ..Version::default()
    }
}

#[test]
fn after_another_boot_only_what_was_made_durable_is_trusted() {
    let bench = bench();
    let mut part = Part::start(&bench.folder, &owner(1), version(10)).unwrap();
    part.append(b"abcde").unwrap();
    part.sync().unwrap();
    part.append(b"fgh").unwrap();
    drop(part);
    let found = Part::find(&bench.folder, &owner(2)).unwrap().unwrap();
    assert_eq!(found.length, 8, "the same boot");

    let note = bench.staging().join("j-1.1.part.json");
    let text = std::fs::read_to_string(&note).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["boot"] = "another".into();
    std::fs::write(&note, value.to_string()).unwrap();
    let found = Part::find(&bench.folder, &owner(2)).unwrap().unwrap();
    assert_eq!(found.length, 5, "another boot");
    let part = Part::take(&bench.folder, &owner(2)).unwrap().unwrap();
    assert_eq!(part.length(), 5);
    drop(part);
    assert_eq!(bench.read(".staging/j-1.2.part"), b"abcde");
}

#[test]
fn a_part_has_one_writer() {
    let bench = bench();
    let mut old = Part::start(&bench.folder, &owner(1), version(10)).unwrap();
    old.append(b"abcde").unwrap();
    let busy = Part::take(&bench.folder, &owner(1)).unwrap_err();
    assert_eq!(
        busy.kind(),
        std::io::ErrorKind::WouldBlock,
        "the same lease twice"
    );
    let busy = Part::start(&bench.folder, &owner(1), version(10)).unwrap_err();
    assert_eq!(busy.kind(), std::io::ErrorKind::WouldBlock);

    let mut new = Part::take(&bench.folder, &owner(2)).unwrap().unwrap();
    assert_ne!(new.inode(), old.inode(), "a copy");
    new.append(b"NEW").unwrap();
    old.append(b"old").unwrap();
    assert_eq!(bench.read(".staging/j-1.2.part"), b"abcdeNEW");
    assert_eq!(bench.read(".staging/j-1.1.part"), b"abcdeold");

    // An older lease never touches the part of a newer one.
    drop((old, new));
    let part = Part::take(&bench.folder, &owner(1)).unwrap().unwrap();
    assert_eq!(part.length(), 8);
    assert_eq!(bench.read(".staging/j-1.2.part"), b"abcdeNEW");
}

#[test]
fn a_part_without_a_note_of_its_own_is_not_continued() {
    let bench = bench();
    std::fs::write(bench.staging().join("j-1.1.part"), b"whose?").unwrap();
    assert_eq!(Part::find(&bench.folder, &owner(2)).unwrap(), None);
    let mut part = Part::start(&bench.folder, &owner(3), version(9)).unwrap();
    part.append(b"abc").unwrap();
    drop(part);
    // Another file under the note of the first.
    let path = bench.staging().join("j-1.3.part");
    std::fs::write(bench.staging().join("new"), b"other").unwrap();
    std::fs::rename(bench.staging().join("new"), &path).unwrap();
    assert_eq!(Part::find(&bench.folder, &owner(4)).unwrap(), None);
    assert!(Part::take(&bench.folder, &owner(4)).unwrap().is_none());
    // Nor one whose note is torn.
    std::fs::write(bench.staging().join("j-1.3.part.json"), b"{\"url\":").unwrap();
    assert_eq!(Part::find(&bench.folder, &owner(4)).unwrap(), None);
}

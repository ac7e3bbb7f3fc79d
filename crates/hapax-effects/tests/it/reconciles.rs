//! Database and disk, taken apart and put together again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hapax::job::testing::MemoryQueue;
use hapax::job::{
    Act, Ask, Class, Deed, Events, Fence, Held, JobId, NewJob, On, OpKey, OpState, Queue, State,
};
use hapax_core::Tenant;
use hapax_effects::download::part::{Owner, Part, Version};
use hapax_effects::download::{Download, Downloaded};
use hapax_effects::reconcile::{Options, Reconciled, reconcile};
use hapax_store::Clock;

use crate::folders::{Bench, bench, noise};
use crate::hostile::{Hostile, Source};

fn queue() -> Arc<dyn Queue> {
    Arc::new(MemoryQueue::new())
}

async fn planned(queue: &Arc<dyn Queue>, artifact: &str, url: &str) -> JobId {
    let job = NewJob::download("w-1", artifact, url).unwrap();
    queue
        .plan(Tenant::DEFAULT, vec![job])
        .await
        .unwrap()
        .remove(0)
        .job
        .id
}

async fn leased(queue: &Arc<dyn Queue>) -> Held {
    let held = Held::lease(queue, Tenant::DEFAULT, Ask::by("worker-1")).await;
    held.unwrap().remove(0)
}

async fn downloaded(bench: &Bench, queue: &Arc<dyn Queue>, id: &JobId) -> Downloaded {
    let download = Download::new(bench.downloader.clone(), Events::none());
    download.run(leased(queue).await).await;
    let (job, _) = queue
        .job(Tenant::DEFAULT, id.clone())
        .await
        .unwrap()
        .unwrap();
    serde_json::from_str(
        job.result
            .as_deref()
            .unwrap_or_else(|| panic!("{:?}", job.error)),
    )
    .unwrap()
}

async fn run(bench: &Bench, queue: &Arc<dyn Queue>, dry_run: bool) -> Reconciled {
    let options = Options {
        dry_run,
        ..Options::default()
    };
    reconcile(queue, Tenant::DEFAULT, Some(&bench.folder), &options)
        .await
        .unwrap()
}

/// Dry runs first, twice, then for real, then once more: nothing is left to do.
async fn check(bench: &Bench, queue: &Arc<dyn Queue>, expected: Reconciled) {
    for _twice in 0..2 {
        let dry = Reconciled {
            dry_run: true,
            ..expected
        };
        assert_eq!(run(bench, queue, true).await, dry);
    }
    assert_eq!(run(bench, queue, false).await, expected);
    let left = Reconciled {
        orphans: expected.orphans,
        ..Reconciled::default()
    };
    assert_eq!(run(bench, queue, false).await, left, "again");
}

fn make_old(path: &Path) {
    let past = SystemTime::now() - Duration::from_secs(4000);
    std::fs::File::open(path)
        .unwrap()
        .set_modified(past)
        .unwrap();
}

#[tokio::test]
async fn nothing_is_done_where_nothing_is_wrong() {
    let (server, bench, queue) = (Hostile::start().await, bench(), queue());
    let id = planned(&queue, "a-1", &server.put("/a", Source::of(&noise(10)))).await;
    let done = downloaded(&bench, &queue, &id).await;
    make_old(&bench.place.path().join(&done.object));
    check(&bench, &queue, Reconciled::default()).await;
}

#[tokio::test]
async fn only_old_parts_that_no_job_can_continue_are_removed() {
    let (bench, queue) = (bench(), queue());
    let resumable = planned(&queue, "a-1", "http://example.org/1").await;
    let dead = planned(&queue, "a-2", "http://example.org/2").await;
    for id in [&resumable, &dead] {
        let held = leased(&queue).await;
        let retryable = id == &resumable;
        assert_eq!(&held.job().id, id);
        held.fail("broken", retryable, None).await.unwrap();
    }
    let unknown = JobId::new("j/unknown").unwrap();
    let mut writers = Vec::new();
    for (job, epoch, is_old, is_written) in [
        (&resumable, 1, true, false),
        (&dead, 1, true, false),
        (&dead, 2, false, false),
        (&unknown, 1, true, false),
        (&unknown, 2, true, true),
    ] {
        let owner = Owner::of(job, epoch);
        let mut part = Part::start(&bench.folder, &owner, Version::default()).unwrap();
        part.append(b"some").unwrap();
        let name = part.name();
        if is_written {
            writers.push(part);
        }
        if is_old {
            make_old(&bench.staging().join(&name));
            make_old(&bench.staging().join(format!("{name}.json")));
        }
    }
    let stored = resumable.as_str();
    let unnoted = [format!("{stored}.part"), format!("{stored}.7.part")];
    let strays = ["none-of-ours.txt", "gone.1.part.json", "bare.1.part"];
    for stray in strays.into_iter().chain(unnoted.iter().map(String::as_str)) {
        std::fs::write(bench.staging().join(stray), b"").unwrap();
        make_old(&bench.staging().join(stray));
    }
    let expected = Reconciled {
        parts_deleted: 3,
        ..Reconciled::default()
    };
    check(&bench, &queue, expected).await;
    let left = bench.staged();
    assert_eq!(writers.len(), 1, "somebody still writes");
    let name = |id: &JobId, epoch: i64| format!("{}.{epoch}.part", id.as_str());
    let mut kept = vec![
        name(&resumable, 1),
        format!("{}.json", name(&resumable, 1)),
        name(&dead, 2),
        format!("{}.json", name(&dead, 2)),
        "none-of-ours.txt".to_owned(),
        "j%2Funknown.2.part".to_owned(),
        "j%2Funknown.2.part.json".to_owned(),
    ];
    // Without a note, the name says whose it is.
    kept.extend(unnoted);
    kept.sort();
    assert_eq!(left, kept);
}

#[tokio::test]
async fn a_name_that_is_gone_is_given_again() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(1000));
    let id = planned(&queue, "a-1", &server.put("/a", Source::of(&body))).await;
    let done = downloaded(&bench, &queue, &id).await;
    std::fs::remove_file(bench.place.path().join(&done.file)).unwrap();
    let expected = Reconciled {
        healed: 1,
        ..Reconciled::default()
    };
    check(&bench, &queue, expected).await;
    assert!(bench.read(&done.file) == body);
    assert_eq!(server.gets("/a").len(), 1, "nothing was fetched");
}

#[tokio::test]
async fn what_is_in_the_place_of_a_name_is_replaced() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(1000));
    let id = planned(&queue, "a-1", &server.put("/a", Source::of(&body))).await;
    let done = downloaded(&bench, &queue, &id).await;
    let file = bench.place.path().join(&done.file);
    let expected = Reconciled {
        healed: 1,
        ..Reconciled::default()
    };
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, b"another").unwrap();
    check(&bench, &queue, expected).await;
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    check(&bench, &queue, expected).await;
    assert!(bench.read(&done.file) == body);
}

#[tokio::test]
async fn a_folder_without_any_object_is_left_alone_unless_it_is_asked_for() {
    let (server, bench, queue) = (Hostile::start().await, bench(), queue());
    let id = planned(&queue, "a-1", &server.put("/a", Source::of(&noise(10)))).await;
    let done = downloaded(&bench, &queue, &id).await;
    let objects = bench.place.path().join("objects");
    std::fs::remove_dir_all(&objects).unwrap();
    std::fs::create_dir(&objects).unwrap();
    let careful = Options {
        careful: true,
        ..Options::default()
    };
    let found = reconcile(&queue, Tenant::DEFAULT, Some(&bench.folder), &careful).await;
    assert_eq!(found.unwrap().healed, 0, "the disk may not be mounted");
    assert!(!bench.place.path().join(&done.object).exists());
    let asked = reconcile(
        &queue,
        Tenant::DEFAULT,
        Some(&bench.folder),
        &Options::default(),
    )
    .await;
    assert_eq!(asked.unwrap().healed, 1);
}

#[tokio::test]
async fn a_job_whose_content_is_gone_or_damaged_is_done_again() {
    for is_damaged in [false, true] {
        let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(1000));
        let id = planned(&queue, "a-1", &server.put("/a", Source::of(&body))).await;
        let done = downloaded(&bench, &queue, &id).await;
        let object = bench.place.path().join(&done.object);
        std::fs::remove_file(&object).unwrap();
        if is_damaged {
            std::fs::write(&object, b"damaged").unwrap();
        }
        let expected = Reconciled {
            healed: 1,
            ..Reconciled::default()
        };
        check(&bench, &queue, expected).await;
        let (job, _) = queue
            .job(Tenant::DEFAULT, id.clone())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(job.state, State::Planned);
        assert_eq!(
            downloaded(&bench, &queue, &id).await,
            done,
            "the same content"
        );
        assert!(bench.read(&done.object) == body && bench.read(&done.file) == body);
        assert_eq!(server.gets("/a").len(), 2);
    }
}

#[tokio::test]
async fn old_objects_that_no_job_knows_are_told_and_kept() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(1000));
    let id = planned(&queue, "a-1", &server.put("/a", Source::of(&body))).await;
    let done = downloaded(&bench, &queue, &id).await;
    make_old(&bench.place.path().join(&done.object));
    for (name, is_old) in [("ab".repeat(32), true), ("ac".repeat(32), false)] {
        let shelf = bench.place.path().join("objects").join(&name[..2]);
        std::fs::create_dir_all(&shelf).unwrap();
        std::fs::write(shelf.join(&name), b"whose?").unwrap();
        if is_old {
            make_old(&shelf.join(&name));
        }
    }
    let expected = Reconciled {
        orphans: 1,
        ..Reconciled::default()
    };
    check(&bench, &queue, expected).await;
    assert_eq!(
        bench.read(&format!("objects/ab/{}", "ab".repeat(32))),
        b"whose?"
    );
}

#[tokio::test]
async fn leases_that_ran_out_and_operations_of_the_dead_are_found() {
    let bench = bench();
    let clock = Clock::system();
    let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::with_clock(clock.clone()));
    let id = planned(&queue, "a-1", "http://example.org/1").await;
    let job = queue
        .lease(Tenant::DEFAULT, Ask::by("worker-1"))
        .await
        .unwrap()
        .remove(0);
    let key = OpKey::new("op-1").unwrap();
    let begin = Act {
        on: On::Job(id.clone()),
        fence: Fence::of("worker-1", job.epoch),
        deed: Deed::Begin {
            key: key.clone(),
            kind: "STREAM".into(),
            class: Class::Probe,
            token: "t".into(),
        },
    };
    queue
        .apply(Tenant::DEFAULT, vec![begin])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(
        run(&bench, &queue, false).await,
        Reconciled::default(),
        "it is alive"
    );
    clock.advance(Duration::from_secs(700));
    let expected = Reconciled {
        leases_expired: 1,
        ops_in_doubt: 1,
        ..Reconciled::default()
    };
    check(&bench, &queue, expected).await;
    let (job, ops) = queue.job(Tenant::DEFAULT, id).await.unwrap().unwrap();
    assert_eq!((job.lease, job.failures), (None, 1));
    assert_eq!(ops[0].state, OpState::InDoubt);
}

//! The whole plan of a download under a queue: crashes after every step, kills in the middle, duplicates.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::job::testing::{
    HistoryQueue, MemoryQueue, Trial, crash_after_every_step, runs_twice_settles_once,
};
use hapax::job::{
    Act, Ask, Class, Deed, Effect, Event, Events, Fault, Fence, Held, Job, JobId, JobKind, NewJob,
    On, Op, OpState, Queue, State, Worker, op_key,
};
use hapax_core::Tenant;
use hapax_effects::download::plan::{Course, plan};
use hapax_effects::download::{Download, Downloaded, Wanted};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::folders::{Bench, bench, noise, owner, sha};
use crate::hostile::{Hostile, Source};

const LENGTH: usize = 100_000;

fn queue() -> Arc<dyn Queue> {
    Arc::new(MemoryQueue::new())
}

async fn planned(queue: &Arc<dyn Queue>, job: NewJob) -> JobId {
    let planned = queue.plan(Tenant::DEFAULT, vec![job]).await.unwrap();
    planned.into_iter().next().unwrap().job.id
}

async fn lease(queue: &Arc<dyn Queue>) -> Held {
    let ask = Ask::by("worker-1");
    Held::lease(queue, Tenant::DEFAULT, ask)
        .await
        .unwrap()
        .remove(0)
}

async fn act(queue: &Arc<dyn Queue>, id: &JobId, fence: Fence, deed: Deed) {
    let on = On::Job(id.clone());
    let acts = vec![Act { on, fence, deed }];
    queue
        .apply(Tenant::DEFAULT, acts)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
}

async fn stored(queue: &Arc<dyn Queue>, id: &JobId) -> (Job, Vec<Op>) {
    queue
        .job(Tenant::DEFAULT, id.clone())
        .await
        .unwrap()
        .unwrap()
}

fn download(bench: &Bench) -> Download {
    Download::new(bench.downloader.clone(), Events::none())
}

fn result(job: &Job) -> Downloaded {
    serde_json::from_str(job.result.as_deref().unwrap()).unwrap()
}

#[tokio::test]
async fn a_download_goes_through_its_states_and_its_result_says_where_it_is() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(LENGTH));
    let url = server.put(
        "/a.pdf",
        Source::of(&body).header("Content-Type", "application/pdf"),
    );
    let id = planned(&queue, NewJob::download("w/1", "a-1", &url).unwrap()).await;
    let told = Arc::new(Mutex::new((0, None)));
    let seen = told.clone();
    let events = Events::to(move |event| {
        if let Event::Progress { done, total, .. } = event {
            *seen.lock().unwrap() = (*done, *total);
        }
    });
    Download::new(bench.downloader.clone(), events)
        .run(lease(&queue).await)
        .await;

    let (job, ops) = stored(&queue, &id).await;
    assert_eq!((job.state, &job.error), (State::Indexed, &None));
    let hash = sha(&body);
    let expected = json!({
        "sha256": hash, "size": LENGTH, "object": format!("objects/{}/{hash}", hash.shelf()),
        "file": "files/w%2F1/a-1", "content_type": "application/pdf", "etag": "\"v1\"",
        "url": url, "final_url": url, "deduped": false,
    });
    let found: Value = serde_json::from_str(job.result.as_deref().unwrap()).unwrap();
    assert_eq!(found, expected);
    assert!(bench.read("files/w%2F1/a-1") == body);
    let context = |kind, context: Value| op_key(kind, &id, Some(&context.to_string())).unwrap();
    let keys: Vec<_> = ops.iter().map(|op| op.key.clone()).collect();
    assert_eq!(keys[0], context("HEAD", json!({"url": url})));
    assert_eq!(
        keys[1],
        context("STREAM", json!({"url": url, "range_start": 0}))
    );
    assert_eq!(keys[2], context("FINALIZE", json!({"sha256": hash})));
    assert_eq!(keys[3], context("INDEX", json!({"sha256": hash})));
    assert_eq!(bench.staged(), Vec::<String>::new());
    assert_eq!(*told.lock().unwrap(), (LENGTH as u64, Some(LENGTH as u64)));
}

#[tokio::test]
async fn a_process_that_dies_at_any_write_is_followed_by_one_that_comes_to_the_same_end() {
    let (server, body) = (Hostile::start().await, noise(LENGTH));
    let benches: Mutex<Vec<Bench>> = Mutex::default();
    let crashed = crash_after_every_step_of(&server, &benches, &body).await;
    let benches = benches.into_inner().unwrap();
    assert_eq!(benches.len(), crashed + 1);
    for bench in &benches {
        assert!(
            bench.read("files/w-1/a-1") == body,
            "the content is there, whole"
        );
        assert_eq!(
            bench.staged(),
            Vec::<String>::new(),
            "nothing is left behind"
        );
    }
    let sent: u64 = server.gets("/a").iter().map(|get| get.sent).sum();
    assert_eq!(
        sent,
        (benches.len() * LENGTH) as u64,
        "no byte was fetched again in any crash"
    );
}

async fn crash_after_every_step_of(
    server: &Hostile,
    benches: &Mutex<Vec<Bench>>,
    body: &[u8],
) -> usize {
    let crashed = crash_after_every_step(|| async {
        let bench = bench();
        let url = server.put("/a", Source::of(body));
        let job = NewJob::download("w-1", "a-1", &url).unwrap();
        let unleased = job
            .clone()
            .at(Tenant::DEFAULT, 1, hapax_core::Time::from_ms(0));
        let state = Course::of(&bench.downloader, &unleased).await.unwrap();
        benches.lock().unwrap().push(bench);
        Trial {
            queue: queue(),
            job,
            plan: plan(),
            state,
        }
    })
    .await;
    assert_eq!(crashed.job.state, State::Indexed);
    // HEAD is begun with its record, so four steps are four writes, and a process dies before and after each.
    assert_eq!((crashed.writes, crashed.crashes), (4, 2 * 4), "{crashed:?}");
    crashed.crashes
}

#[tokio::test]
async fn a_small_download_that_dies_comes_to_the_same_end_and_is_fetched_again_once_at_most() {
    const SMALL: usize = 5000;
    let (server, body) = (Hostile::start().await, noise(SMALL));
    let benches: Mutex<Vec<Bench>> = Mutex::default();
    crash_after_every_step_of(&server, &benches, &body).await;
    let benches = benches.into_inner().unwrap();
    for bench in &benches {
        assert!(bench.read("files/w-1/a-1") == body);
        assert_eq!(bench.staged(), Vec::<String>::new());
    }
    // Only one of the crashes comes between the fetch and its record.
    assert_eq!(server.gets("/a").len(), benches.len() + 1);
}

#[tokio::test]
async fn a_process_that_dies_with_a_duplicate_is_followed_by_one_that_comes_to_the_same_end() {
    let (server, body) = (Hostile::start().await, noise(LENGTH));
    let benches: Mutex<Vec<Bench>> = Mutex::default();
    let crashed = crash_after_every_step(|| async {
        let bench = bench();
        let first = server.put("/first", Source::of(&body));
        let wanted = Wanted::at(&first);
        let (folder, other) = (&bench.folder, owner(1));
        let streamed = bench
            .downloader
            .stream(folder, &other, &wanted, None, &|_, _| {})
            .await;
        let streamed = streamed.unwrap();
        bench
            .downloader
            .finalize(folder, &other, &wanted, &streamed)
            .await
            .unwrap();
        let url = server.put("/a", Source::of(&body));
        let job = NewJob::download("w-1", "a-1", &url).unwrap();
        let unleased = job
            .clone()
            .at(Tenant::DEFAULT, 1, hapax_core::Time::from_ms(0));
        let state = Course::of(&bench.downloader, &unleased).await.unwrap();
        benches.lock().unwrap().push(bench);
        let plan = plan();
        let queue = queue();
        Trial {
            queue,
            job,
            plan,
            state,
        }
    })
    .await;
    assert_eq!(crashed.job.state, State::Deduped);
    assert!(result(&crashed.job).deduped);
    for bench in benches.into_inner().unwrap() {
        assert!(bench.read("files/w-1/a-1") == body);
    }
}

#[tokio::test]
async fn a_worker_killed_in_the_middle_is_continued_by_the_next() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(LENGTH));
    let url = server.put("/a", Source::of(&body).stall(&[60_000]));
    let id = planned(&queue, NewJob::download("w-1", "a-1", &url).unwrap()).await;
    let (told, mut seen) = tokio::sync::watch::channel(0);
    let events = Events::to(move |event| {
        if let Event::Progress { done, .. } = event {
            told.send_replace(*done);
        }
    });
    let held = lease(&queue).await;
    let fence = held.fence();
    let killed = Download::new(bench.downloader.clone(), events);
    tokio::select! {
        () = killed.run(held) => panic!("it stalls"),
        reached = seen.wait_for(|done| *done == 60_000) => { reached.unwrap(); }
    }
    assert_eq!(stored(&queue, &id).await.0.state, State::Streaming);
    act(&queue, &id, fence, Deed::Release).await;
    download(&bench).run(lease(&queue).await).await;

    let (job, ops) = stored(&queue, &id).await;
    assert_eq!(
        (job.state, job.attempts),
        (State::Indexed, 2),
        "{:?}",
        job.error
    );
    server.assert_sent_once("/a", LENGTH);
    assert!(ops.iter().all(|op| op.state == OpState::Done), "{ops:?}");
    let stream = ops.iter().find(|op| op.kind == "STREAM").unwrap();
    assert_eq!(stream.tries, 2);
    assert!(bench.read("files/w-1/a-1") == body);
}

#[tokio::test]
async fn an_attempt_that_failed_is_resumed_and_that_is_a_state_of_the_job() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(LENGTH));
    let url = server.put("/a", Source::of(&body).cut(&[60_000, 0, 0, 0, 0]));
    let id = planned(&queue, NewJob::download("w-1", "a-1", &url).unwrap()).await;
    download(&bench).run(lease(&queue).await).await;
    let (job, _) = stored(&queue, &id).await;
    assert_eq!(job.state, State::Failed);
    assert!(
        job.error.as_deref().unwrap().contains("network: "),
        "{:?}",
        job.error
    );

    server.put("/a", Source::of(&body));
    act(&queue, &id, Fence::none(), Deed::Retry).await;
    let states: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = states.clone();
    let events = Events::to(move |event| {
        if let Event::Finished { node, .. } | Event::Replayed { node, .. } = event {
            seen.lock().unwrap().push(node.to_string());
        }
    });
    Download::new(bench.downloader.clone(), events)
        .run(lease(&queue).await)
        .await;
    let (job, ops) = stored(&queue, &id).await;
    assert_eq!(job.state, State::Indexed, "{:?}", job.error);
    assert_eq!(
        *states.lock().unwrap(),
        ["HEAD", "RESUME", "STREAM", "FINALIZE", "INDEX"]
    );
    let resume = ops.iter().find(|op| op.kind == "RESUME").unwrap();
    assert_eq!(resume.result.as_deref(), Some("{\"range_start\":60000}"));
    server.assert_sent_once("/a", LENGTH);
}

#[tokio::test]
async fn known_content_is_named_without_being_fetched() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(LENGTH));
    let first = server.put("/a", Source::of(&body));
    let url = server.put("/b", Source::of(&body));
    planned(&queue, NewJob::download("w-1", "a-1", &first).unwrap()).await;
    download(&bench).run(lease(&queue).await).await;
    let payload = json!({"sha256": sha(&body)}).to_string();
    let job = NewJob::download("w-2", "a-2", &url)
        .unwrap()
        .with_payload(&payload)
        .unwrap();
    let id = planned(&queue, job).await;
    download(&bench).run(lease(&queue).await).await;
    let (job, _) = stored(&queue, &id).await;
    assert_eq!(job.state, State::SkippedDuplicate, "{:?}", job.error);
    let downloaded = result(&job);
    assert!(
        downloaded.deduped && downloaded.file == "files/w-2/a-2",
        "{downloaded:?}"
    );
    assert_eq!(server.gets("/b"), []);
    assert!(bench.read("files/w-2/a-2") == body);

    // An object that only has the name is not taken for the content.
    let damaged = bench.place.path().join(&downloaded.object);
    std::fs::remove_file(&damaged).unwrap();
    std::fs::write(&damaged, b"damaged").unwrap();
    let job = NewJob::download("w-3", "a-3", &url)
        .unwrap()
        .with_payload(&payload)
        .unwrap();
    let id = planned(&queue, job).await;
    download(&bench).run(lease(&queue).await).await;
    assert_eq!(stored(&queue, &id).await.0.state, State::Indexed);
    assert!(bench.read("files/w-3/a-3") == body);
}

#[tokio::test]
async fn what_a_job_fetched_itself_is_no_duplicate_when_a_later_attempt_finds_it() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(LENGTH));
    let url = server.put("/a", Source::of(&body));
    let payload = json!({"sha256": sha(&body), "size": LENGTH}).to_string();
    let job = NewJob::download("w-1", "a-1", &url).unwrap();
    let id = planned(&queue, job.with_payload(&payload).unwrap()).await;
    // Something is in the way of the last step.
    let obstacle = bench.place.path().join("files/w-1");
    std::fs::write(&obstacle, b"").unwrap();
    download(&bench).run(lease(&queue).await).await;
    let (job, _) = stored(&queue, &id).await;
    assert_eq!(job.state, State::Failed, "{:?}", job.error);
    assert!(
        job.error.as_deref().unwrap().starts_with("INDEX: disk: "),
        "{:?}",
        job.error
    );

    std::fs::remove_file(&obstacle).unwrap();
    act(&queue, &id, Fence::none(), Deed::Retry).await;
    download(&bench).run(lease(&queue).await).await;
    let (job, _) = stored(&queue, &id).await;
    assert_eq!(job.state, State::Indexed, "{:?}", job.error);
    assert!(!result(&job).deduped);
    server.assert_sent_once("/a", LENGTH);
}

#[tokio::test]
async fn what_can_never_work_is_given_up_at_once() {
    let (server, bench, queue) = (Hostile::start().await, bench(), queue());
    let url = server.put("/a", Source::of(&noise(10)));
    let wrong = json!({"sha256": "0".repeat(64)}).to_string();
    let unreadable = json!({"sha256": "zero"}).to_string();
    for (artifact, url, payload, why) in [
        ("a-1", server.url("/nothing"), None, "http_status: "),
        ("a-2", url.clone(), Some(wrong), "hash_mismatch: "),
        ("a-3", url, Some(unreadable), "bad_payload: "),
        ("a-4", "ftp://example.org/".to_owned(), None, "bad_url: "),
    ] {
        let mut job = NewJob::download("w-1", artifact, &url).unwrap();
        if let Some(payload) = payload {
            job = job.with_payload(&payload).unwrap();
        }
        let id = planned(&queue, job).await;
        download(&bench).run(lease(&queue).await).await;
        let (job, _) = stored(&queue, &id).await;
        assert_eq!(job.state, State::Dead, "{artifact}");
        assert!(
            job.error.as_deref().unwrap().contains(why),
            "{:?}",
            job.error
        );
    }
}

#[tokio::test]
async fn a_worker_downloads_many_and_equal_content_is_kept_once() {
    let (server, bench) = (Hostile::start().await, bench());
    let history = Arc::new(HistoryQueue::new(queue()));
    let queue: Arc<dyn Queue> = history.clone();
    let mut jobs = Vec::new();
    for number in 0..24 {
        let body = noise(10_000 + number % 6);
        let mut source = Source::of(&body);
        if number % 3 == 0 {
            source = source.cut(&[5000, 100]).answer(500, &[]);
        }
        let url = server.put(&format!("/{number}"), source);
        jobs.push(NewJob::download("w-1", &format!("a-{number}"), &url).unwrap());
    }
    queue.plan(Tenant::DEFAULT, jobs).await.unwrap();
    let worker = Worker::new(queue.clone())
        .handler(JobKind::DOWNLOAD, download(&bench))
        .concurrency(8);
    let all = async {
        while history.ended() < 24 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let limit = Duration::from_secs(30);
    let run = worker.run(
        async { drop(tokio::time::timeout(limit, all).await) },
        limit,
    );
    run.await;
    let tally = queue.tally(Tenant::DEFAULT, u64::MAX).await.unwrap();
    let count = |state| {
        tally
            .iter()
            .find(|tally| tally.state == state)
            .map_or(0, |tally| tally.count)
    };
    assert_eq!(
        (count(State::Indexed), count(State::Deduped)),
        (6, 18),
        "{tally:?}"
    );
    assert_eq!(history.wrongs(), Vec::<String>::new());
    for number in 0..24 {
        let body = noise(10_000 + number % 6);
        assert!(bench.read(&format!("files/w-1/a-{number}")) == body);
        server.assert_sent_once(&format!("/{number}"), body.len());
    }
}

#[tokio::test]
async fn a_job_without_a_turn_is_given_back_when_no_turns_are_left() {
    let (server, bench, queue, body) = (Hostile::start().await, bench(), queue(), noise(LENGTH));
    let url = server.put("/a", Source::of(&body));
    let id = planned(&queue, NewJob::download("w-1", "a-1", &url).unwrap()).await;
    let turns = Arc::new(Semaphore::new(0));
    let waiting = tokio::spawn({
        let (download, held) = (
            download(&bench).in_turns(turns.clone()),
            lease(&queue).await,
        );
        async move { download.run(held).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "it waits for a turn");
    turns.close();
    waiting.await.unwrap();
    let (job, _) = stored(&queue, &id).await;
    assert_eq!((job.lease, job.error), (None, None));
    assert_eq!(server.requests(), 0);

    let open = Arc::new(Semaphore::new(1));
    let download = download(&bench).in_turns(open.clone());
    download.run(lease(&queue).await).await;
    assert_eq!(stored(&queue, &id).await.0.state, State::Indexed);
    assert_eq!(open.available_permits(), 1);
}

#[tokio::test]
async fn each_step_runs_twice_and_settles_once() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let url = server.put("/a", Source::of(&body));
    let (downloader, folder) = (&bench.downloader, &bench.folder);
    let job = || NewJob::download("w-1", "a-1", &url).unwrap();
    let (who, wanted) = (owner(1), Wanted::at(&url));

    let head = Effect::new("HEAD", Class::Replayable);
    let run = |_| async { Ok::<_, Fault>(downloader.head(&url).await?) };
    assert_eq!(
        runs_twice_settles_once(queue(), job(), &head, run)
            .await
            .length,
        Some(LENGTH as u64)
    );

    let stream = Effect::new("STREAM", Class::Probe);
    let run = |_| async {
        let stream = downloader.stream(folder, &who, &wanted, None, &|_, _| {});
        let mut streamed = stream.await?;
        streamed.resumed_from = 0; // Not part of the record.
        Ok::<_, Fault>(streamed)
    };
    let streamed = runs_twice_settles_once(queue(), job(), &stream, run).await;
    server.assert_sent_once("/a", LENGTH);

    let finalize = Effect::new("FINALIZE", Class::Keyed);
    let run = |_| async {
        let finalize = downloader.finalize(folder, &who, &wanted, &streamed);
        Ok::<_, Fault>(finalize.await?)
    };
    let placed = runs_twice_settles_once(queue(), job(), &finalize, run).await;
    assert!(!placed.deduped);

    let index = Effect::new("INDEX", Class::Keyed);
    let run = |_| async {
        let index = downloader.index(folder, &who, &placed.sha256, ("w-1", "a-1"));
        Ok::<_, Fault>(index.await?)
    };
    let path = runs_twice_settles_once(queue(), job(), &index, run).await;
    assert!(bench.read(&path) == body);
}

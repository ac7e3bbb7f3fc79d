//! Fetching from a server that breaks off, changes its mind and lies.

use std::sync::Mutex;
use std::time::Duration;

use hapax_effects::download::{Code, Error, Limits, Streamed, Wanted};

use crate::folders::{Bench, bench, bench_with, noise, owner, quick, sha};
use crate::hostile::{Framing, Hostile, Lie, Source};

const LENGTH: usize = 300_000;

async fn fetch(bench: &Bench, url: &str, epoch: i64) -> Result<Streamed, Error> {
    let wanted = Wanted::at(url);
    let downloader = &bench.downloader;
    downloader
        .stream(&bench.folder, &owner(epoch), &wanted, None, &|_, _| {})
        .await
}

/// Fetches and checks that what lies in staging is the content, whole.
async fn fetch_whole(bench: &Bench, url: &str, body: &[u8]) -> Streamed {
    let streamed = fetch(bench, url, 1).await.unwrap();
    assert_whole(bench, &streamed, body);
    streamed
}

fn assert_whole(bench: &Bench, streamed: &Streamed, body: &[u8]) {
    assert_eq!(
        (streamed.size, &streamed.sha256),
        (body.len() as u64, &sha(body))
    );
    let parts = bench
        .staged()
        .into_iter()
        .filter(|name| !name.ends_with("json"));
    let holds = |name: String| bench.read(&format!(".staging/{name}")) == body;
    assert!(parts.into_iter().any(holds), "a part holds the content");
}

/// Runs until so many bytes are written, then drops the run: a runner that died.
async fn die_after(bench: &Bench, url: &str, epoch: i64, bytes: u64) -> u64 {
    let (told, mut seen) = tokio::sync::watch::channel(0);
    let wanted = Wanted::at(url);
    let progress = move |done: u64, _: Option<u64>| {
        told.send_replace(done);
    };
    let who = owner(epoch);
    tokio::select! {
        ended = bench.downloader.stream(&bench.folder, &who, &wanted, None, &progress) => {
            panic!("it should not have ended: {ended:?}")
        }
        reached = seen.wait_for(|done| *done >= bytes) => *reached.unwrap(),
    }
}

#[tokio::test]
async fn a_plain_download_is_fetched_by_one_request() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let mut source = Source::of(&body).header("Content-Type", "application/pdf");
    source.framing = Framing::Length;
    let url = server.put("/a", source);
    let seen = Mutex::new(Vec::new());
    let progress = |done, total| seen.lock().unwrap().push((done, total));
    let wanted = Wanted::at(&url);
    let streamed = bench
        .downloader
        .stream(&bench.folder, &owner(1), &wanted, None, &progress)
        .await
        .unwrap();
    assert_whole(&bench, &streamed, &body);
    assert_eq!(streamed.content_type.as_deref(), Some("application/pdf"));
    assert_eq!(streamed.etag.as_deref(), Some("\"v1\""));
    assert_eq!(server.gets("/a").len(), 1);
    let seen = seen.into_inner().unwrap();
    assert!(seen.is_sorted(), "progress only grows: {seen:?}");
    assert_eq!(seen.last(), Some(&(LENGTH as u64, Some(LENGTH as u64))));
}

#[tokio::test]
async fn empty_content_is_content() {
    let (server, bench) = (Hostile::start().await, bench());
    for (path, framing) in [
        ("/l", Framing::Length),
        ("/c", Framing::Chunked),
        ("/e", Framing::Close),
    ] {
        let mut source = Source::of(b"");
        source.framing = framing;
        fetch_whole(&bench, &server.put(path, source), b"").await;
    }
}

#[tokio::test]
async fn a_broken_connection_is_continued_and_no_range_is_fetched_again() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let cuts = [1, 0, 99_999, 0, 65_536, 7, 1000];
    let url = server.put("/a", Source::of(&body).cut(&cuts));
    fetch_whole(&bench, &url, &body).await;
    server.assert_sent_once("/a", LENGTH);
    let gets = server.gets("/a");
    assert_eq!(gets.len(), cuts.len() + 1);
    for get in &gets[1..] {
        assert_eq!(get.if_range.as_deref(), Some("\"v1\""), "{get:?}");
    }
}

#[tokio::test]
async fn a_settled_date_will_do_when_there_is_no_tag() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let mut source = Source::of(&body).cut(&[1000, 2000]);
    source.etag = None;
    source.last_modified = Some("Wed, 21 Oct 2015 07:00:00 GMT".to_owned());
    fetch_whole(&bench, &server.put("/old", source.clone()), &body).await;
    server.assert_sent_once("/old", LENGTH);

    source.last_modified = Some("Wed, 21 Oct 2015 07:27:30 GMT".to_owned());
    fetch_whole(&bench, &server.put("/new", source), &body).await;
    let gets = server.gets("/new");
    assert!(
        gets.iter().all(|get| get.range.is_none()),
        "a fresh date says nothing: {gets:?}"
    );
}

#[tokio::test]
async fn without_a_strong_tag_it_starts_over() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let mut source = Source::of(&body).cut(&[1000, 2000]);
    source.etag = Some("W/\"v1\"".to_owned());
    fetch_whole(&bench, &server.put("/a", source), &body).await;
    assert!(
        server
            .gets("/a")
            .iter()
            .all(|get| get.range.is_none() && get.from == 0)
    );
}

#[tokio::test]
async fn a_server_without_ranges_is_asked_for_everything_again() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let mut source = Source::of(&body).cut(&[1000, 50_000]);
    source.ranges = false;
    fetch_whole(&bench, &server.put("/a", source), &body).await;
    assert_eq!(server.gets("/a").len(), 3);
}

#[tokio::test]
async fn lies_about_ranges_never_get_into_the_content() {
    for lie in [
        Lie::OtherStart,
        Lie::OtherTotal,
        Lie::NoContentRange,
        Lie::OtherVersion,
        Lie::Everything,
        Lie::NotSatisfiable,
    ] {
        let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
        let mut source = Source::of(&body).cut(&[1000]);
        source.lie = Some(lie);
        let url = server.put("/a", source);
        let streamed = fetch(&bench, &url, 1)
            .await
            .unwrap_or_else(|error| panic!("{lie:?}: {error}"));
        assert_whole(&bench, &streamed, &body);
    }
}

#[tokio::test]
async fn more_than_was_announced_is_an_error_and_nothing_of_it_is_kept() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let mut source = Source::of(&body).cut(&[1000]);
    source.lie = Some(Lie::LongerBody);
    source.framing = Framing::Chunked;
    let error = fetch(&bench, &server.put("/a", source), 1)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::SizeMismatch, true)
    );
    assert_eq!(bench.staged(), Vec::<String>::new());
}

#[tokio::test]
async fn a_version_that_changed_in_between_is_fetched_from_its_start() {
    let (server, bench) = (Hostile::start().await, bench());
    let (old, new) = (noise(LENGTH), noise(LENGTH + 1)[1..].to_vec());
    assert_eq!(old.len(), new.len(), "only the tag tells them apart");
    let url = server.put("/a", Source::of(&old).stall(&[100_000]));
    die_after(&bench, &url, 1, 100_000).await;
    let mut changed = Source::of(&new);
    changed.etag = Some("\"v2\"".to_owned());
    server.put("/a", changed);
    let streamed = fetch(&bench, &url, 2).await.unwrap();
    assert_whole(&bench, &streamed, &new);
    assert_eq!(streamed.etag.as_deref(), Some("\"v2\""));
}

#[tokio::test]
async fn a_tag_that_changes_with_every_request_ends_the_try_instead_of_mixing_versions() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let mut source = Source::of(&body).cut(&[1000; 20]);
    source.new_etags = true;
    let url = server.put("/a", source);
    let error = fetch(&bench, &url, 1).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let most = usize::try_from(Limits::default().fruitless_max).unwrap() + 1;
    assert_eq!(server.gets("/a").len(), most);
}

#[tokio::test]
async fn a_runner_that_died_is_continued_and_no_range_is_fetched_again() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let url = server.put("/a", Source::of(&body).stall(&[100_000, 30_000, 0]));
    let first = die_after(&bench, &url, 1, 100_000).await;
    let second = die_after(&bench, &url, 2, 130_000).await;
    assert_eq!((first, second), (100_000, 130_000));
    let streamed = fetch(&bench, &url, 4).await.unwrap();
    assert_whole(&bench, &streamed, &body);
    assert_eq!(streamed.resumed_from, 130_000);
    server.assert_sent_once("/a", LENGTH);
    assert_eq!(bench.staged(), ["j-1.4.part", "j-1.4.part.json"]);
}

#[tokio::test]
async fn a_whole_part_is_not_asked_for_again() {
    let (server, body) = (Hostile::start().await, noise(LENGTH));
    for framing in [Framing::Length, Framing::Chunked] {
        let bench = bench();
        let mut source = Source::of(&body);
        source.framing = framing;
        let path = format!("/{framing:?}");
        let url = server.put(&path, source);
        fetch_whole(&bench, &url, &body).await;
        let again = fetch(&bench, &url, 2).await.unwrap();
        assert_whole(&bench, &again, &body);
        assert_eq!(again.resumed_from, LENGTH as u64);
        server.assert_sent_once(&path, LENGTH);
    }
}

#[tokio::test]
async fn a_body_that_ends_early_without_saying_so_is_noticed_by_the_length_that_head_told() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let mut source = Source::of(&body).cut(&[5000]);
    source.framing = Framing::Close;
    let url = server.put("/a", source);
    let head = bench.downloader.head(&url).await.unwrap();
    let wanted = Wanted::at(&url);
    let streamed = bench
        .downloader
        .stream(&bench.folder, &owner(1), &wanted, Some(&head), &|_, _| {})
        .await
        .unwrap();
    assert_whole(&bench, &streamed, &body);
    server.assert_sent_once("/a", LENGTH);
}

#[tokio::test]
async fn errors_of_the_server_are_waited_out_and_its_rests_are_kept_by_all() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let source = Source::of(&body)
        .answer(500, &[])
        .answer(429, &[("Retry-After", "1")])
        .answer(503, &[("Retry-After", "0")]);
    let url = server.put("/a", source);
    let other = server.put("/b", Source::of(&body));
    let begun = std::time::Instant::now();
    fetch_whole(&bench, &url, &body).await;
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );

    server.put(
        "/a",
        Source::of(&body).answer(429, &[("Retry-After", "3600")]),
    );
    let error = fetch(&bench, &url, 2).await;
    assert!(error.is_ok(), "the part is there: {error:?}");
    let error = fetch(
        &bench,
        &server.put(
            "/c",
            Source::of(&body).answer(429, &[("Retry-After", "3600")]),
        ),
        3,
    )
    .await
    .unwrap_err();
    assert_eq!(error.wait().map(|wait| wait.as_secs()), Some(3600));
    let before = server.requests();
    let error = fetch(&bench, &other, 4).await.unwrap_err();
    assert!(
        error.is_retryable() && error.wait() > Some(Duration::from_secs(3500)),
        "{error:?}"
    );
    assert_eq!(server.requests(), before, "the host is left alone");
}

#[tokio::test]
async fn tries_that_bring_nothing_end_after_a_few() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(1000));
    let url = server.put("/a", Source::of(&body).cut(&[0; 50]));
    let error = fetch(&bench, &url, 1).await.unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::Network, true),
        "{error}"
    );
    assert_eq!(server.gets("/a").len(), 4);
}

#[tokio::test]
async fn a_connection_that_brings_nothing_more_is_given_up_and_continued() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(LENGTH));
    let url = server.put("/a", Source::of(&body).stall(&[1000, 1000]));
    fetch_whole(&bench, &url, &body).await;
    server.assert_sent_once("/a", LENGTH);
}

#[tokio::test]
async fn a_drip_ends_with_the_time_of_the_try_and_is_continued_by_the_next() {
    let limits = Limits {
        try_time: Duration::from_millis(400),
        ..quick()
    };
    let (server, bench, body) = (Hostile::start().await, bench_with(limits), noise(LENGTH));
    let mut source = Source::of(&body);
    source.drips = Some(Duration::from_millis(20));
    let url = server.put("/a", source);
    let error = fetch(&bench, &url, 1).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (Code::TimedOut, true));
    server.put("/a", Source::of(&body));
    let streamed = fetch(&bench, &url, 1).await.unwrap();
    assert_whole(&bench, &streamed, &body);
    assert!(streamed.resumed_from > 2, "{}", streamed.resumed_from);
}

#[tokio::test]
async fn one_host_gets_no_more_requests_at_a_time_than_allowed() {
    let limits = Limits {
        per_host_max: 2,
        ..quick()
    };
    let (server, bench) = (Hostile::start().await, bench_with(limits));
    let mut fetches = tokio::task::JoinSet::new();
    for number in 0..8 {
        let mut source = Source::of(&noise(20));
        source.drips = Some(Duration::from_millis(5));
        let url = server.put(&format!("/{number}"), source);
        let (downloader, folder) = (bench.downloader.clone(), bench.folder.clone());
        fetches.spawn(async move {
            let job = hapax_core::job::JobId::new(&format!("j-{number}")).unwrap();
            let owner = hapax_effects::download::part::Owner::of(&job, 1);
            downloader
                .stream(&folder, &owner, &Wanted::at(&url), None, &|_, _| {})
                .await
                .unwrap()
        });
    }
    while let Some(done) = fetches.join_next().await {
        done.unwrap();
    }
    assert_eq!(server.most_open(), 2);
}

#[tokio::test]
async fn a_stalled_writer_is_not_disturbed_and_what_it_has_is_copied() {
    let (server, bench, body) = (
        Hostile::start().await,
        bench_with(Limits {
            idle_time: Duration::from_secs(20),
            ..quick()
        }),
        noise(LENGTH),
    );
    let url = server.put("/a", Source::of(&body).stall(&[100_000]));
    let stalled = {
        let (downloader, folder, url) =
            (bench.downloader.clone(), bench.folder.clone(), url.clone());
        let (told, seen) = tokio::sync::watch::channel(0);
        let run = tokio::spawn(async move {
            let progress = move |done: u64, _: Option<u64>| {
                told.send_replace(done);
            };
            let wanted = Wanted::at(&url);
            downloader
                .stream(&folder, &owner(1), &wanted, None, &progress)
                .await
        });
        let mut seen = seen;
        seen.wait_for(|done| *done == 100_000).await.unwrap();
        run
    };
    let streamed = fetch(&bench, &url, 2).await.unwrap();
    assert_whole(&bench, &streamed, &body);
    assert_eq!(streamed.resumed_from, 100_000);
    server.assert_sent_once("/a", LENGTH);
    let theirs = bench.read(".staging/j-1.1.part");
    assert!(
        theirs == body[..100_000],
        "the stalled writer's file is as it was"
    );
    stalled.abort();
}

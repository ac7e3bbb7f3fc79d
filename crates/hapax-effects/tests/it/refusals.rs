//! What is not fetched, and what is not kept.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use hapax_effects::download::{
    Code, ContentHash, Downloader, Error, Folder, Guard, Limits, Streamed, Wanted,
};

use crate::folders::{Bench, bench, bench_with, noise, owner, quick, sha};
use crate::hostile::{Framing, Hostile, Source};

async fn fetch(bench: &Bench, wanted: &Wanted) -> Result<Streamed, Error> {
    let downloader = &bench.downloader;
    downloader
        .stream(&bench.folder, &owner(1), wanted, None, &|_, _| {})
        .await
}

#[tokio::test]
async fn head_tells_what_the_source_has() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(1234));
    let url = server.put("/a", Source::of(&body).header("Content-Type", "text/plain"));
    let head = bench.downloader.head(&url).await.unwrap();
    assert_eq!(
        (head.status, head.length, head.accepts_ranges),
        (200, Some(1234), true)
    );
    assert_eq!(head.etag.as_deref(), Some("\"v1\""));
    assert_eq!(head.content_type.as_deref(), Some("text/plain"));
    assert_eq!(head.final_url, url);
    assert_eq!(
        bench.downloader.head(&url).await.unwrap(),
        head,
        "harmless to repeat"
    );
}

#[tokio::test]
async fn a_server_without_head_is_asked_for_one_byte() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(1234));
    for status in [403, 404, 405, 501] {
        for ranges in [true, false] {
            let mut source = Source::of(&body);
            (source.head, source.ranges) = (Some(status), ranges);
            let path = format!("/{status}/{ranges}");
            let head = bench
                .downloader
                .head(&server.put(&path, source))
                .await
                .unwrap();
            assert_eq!(
                (head.length, head.accepts_ranges),
                (Some(1234), ranges),
                "{path}"
            );
            assert_eq!(server.gets(&path)[0].range.as_deref(), Some("bytes=0-0"));
        }
    }
    let mut empty = Source::of(b"");
    empty.head = Some(405);
    let head = bench
        .downloader
        .head(&server.put("/empty", empty))
        .await
        .unwrap();
    assert_eq!(head.length, Some(0));
}

#[tokio::test]
async fn what_head_says_is_a_hint_and_the_content_has_the_last_word() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(1234));
    for (path, framing) in [("/l", Framing::Length), ("/c", Framing::Chunked)] {
        let mut source = Source::of(&body);
        (source.head_length, source.framing) = (Some(7), framing);
        let url = server.put(path, source);
        let head = bench.downloader.head(&url).await.unwrap();
        assert_eq!(head.length, Some(7));
        let wanted = Wanted::at(&url);
        let streamed = bench
            .downloader
            .stream(&bench.folder, &owner(1), &wanted, Some(&head), &|_, _| {})
            .await
            .unwrap();
        assert_eq!(streamed.sha256, sha(&body));
    }
}

#[tokio::test]
async fn a_status_says_whether_another_try_can_help() {
    let (server, bench) = (Hostile::start().await, bench());
    for (status, retryable) in [
        (404, false),
        (410, false),
        (401, false),
        (408, true),
        (500, true),
    ] {
        let mut source = Source::of(b"x");
        for _ in 0..9 {
            source = source.answer(status, &[("Retry-After", "9")]);
        }
        let url = server.put(&format!("/{status}"), source);
        let error = bench.downloader.head(&url).await.unwrap_err();
        assert_eq!(
            (error.code(), error.is_retryable()),
            (Code::HttpStatus, retryable),
            "{status}"
        );
        let error = fetch(&bench, &Wanted::at(&url)).await.unwrap_err();
        assert_eq!(error.is_retryable(), retryable, "{status}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(error.wait().is_some(), retryable, "{status}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_may_be_there_later() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = bench().downloader.head(&url).await.unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::Network, true),
        "{error}"
    );
    assert!(
        !error.to_string().contains("http://"),
        "a URL may hold a secret: {error}"
    );
}

#[tokio::test]
async fn redirects_are_followed_a_few_times_and_checked_each_time() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(500));
    let to = server.put("/end", Source::of(&body));
    let hop = |path: &str, to: &str| {
        let mut source = Source::of(b"");
        for _ in 0..20 {
            source = source.answer(302, &[("Location", to)]);
        }
        server.put(path, source)
    };
    let mut url = to.clone();
    for number in 1..=5 {
        url = hop(&format!("/{number}"), &url);
    }
    assert_eq!(bench.downloader.head(&url).await.unwrap().final_url, to);
    let streamed = fetch(&bench, &Wanted::at(&url)).await.unwrap();
    assert_eq!((streamed.final_url, streamed.sha256), (to, sha(&body)));

    for (url, code) in [
        (hop("/6", &url), Code::RedirectRefused),
        (hop("/loop", "/loop"), Code::RedirectRefused),
        (hop("/file", "file:///etc/passwd"), Code::BadUrl),
        (hop("/user", "http://a:b@example.org/"), Code::BadUrl),
    ] {
        let error = bench.downloader.head(&url).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), (code, false), "{url}");
    }
}

#[tokio::test]
async fn the_machine_itself_is_not_asked_unless_that_is_allowed() {
    let (server, place) = (Hostile::start().await, tempfile::tempdir().unwrap());
    let folder = Folder::open(place.path()).unwrap();
    let downloader = Downloader::new(folder, Guard::public_only(), quick()).unwrap();
    server.put("/", Source::of(b"secret"));
    let port = server.address.port();
    for host in [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ] {
        let error = downloader
            .head(&format!("http://{host}:{port}/"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.is_retryable()),
            (Code::SsrfBlocked, false),
            "{host}"
        );
        assert!(error.to_string().starts_with("ssrf_blocked: "), "{error}");
    }
    assert_eq!(server.requests(), 0, "nothing was sent");
}

#[tokio::test]
async fn content_that_is_not_the_expected_one_is_not_kept() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(1000));
    let url = server.put("/a", Source::of(&body));
    let other = ContentHash::parse(&"0".repeat(64)).unwrap();
    let wanted = |sha256, size| Wanted {
        sha256,
        size,
        ..Wanted::at(&url)
    };
    let error = fetch(&bench, &wanted(Some(other.clone()), None))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::HashMismatch, false)
    );
    let text = error.to_string();
    assert!(
        text.contains(other.as_str()) && text.contains(sha(&body).as_str()),
        "{text}"
    );
    for size in [999, 1001] {
        let error = fetch(&bench, &wanted(None, Some(size))).await.unwrap_err();
        assert_eq!(
            (error.code(), error.is_retryable()),
            (Code::SizeMismatch, false)
        );
        let text = error.to_string();
        assert!(
            text.contains("1000") && text.contains(&size.to_string()),
            "{text}"
        );
    }
    assert_eq!(bench.staged(), Vec::<String>::new());
    fetch(&bench, &wanted(Some(sha(&body)), Some(1000)))
        .await
        .unwrap();
}

#[tokio::test]
async fn content_over_the_limit_is_not_kept_whether_or_not_its_length_is_told() {
    let limits = Limits {
        size_bytes_max: 50_000,
        ..quick()
    };
    let (server, bench, body) = (Hostile::start().await, bench_with(limits), noise(50_001));
    for (path, framing) in [("/l", Framing::Length), ("/c", Framing::Chunked)] {
        let mut source = Source::of(&body);
        source.framing = framing;
        let url = server.put(path, source);
        let error = fetch(&bench, &Wanted::at(&url)).await.unwrap_err();
        assert_eq!(
            (error.code(), error.is_retryable()),
            (Code::TooLarge, false),
            "{path}"
        );
        assert_eq!(
            bench.downloader.head(&url).await.unwrap_err().code(),
            Code::TooLarge
        );
    }
    assert_eq!(bench.staged(), Vec::<String>::new());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_body_that_was_compressed_unasked_is_decoded_and_starts_over_when_it_breaks() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(200_000));
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(&body).unwrap();
    let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
    bare.write_all(&body).unwrap();
    for (path, name, sent) in [
        ("/g", "gzip", gzip(&body)),
        ("/z", "deflate", zlib.finish().unwrap()),
        ("/b", "deflate", bare.finish().unwrap()),
    ] {
        let source = Source::of(&sent)
            .header("Content-Encoding", name)
            .cut(&[90_000]);
        let streamed = fetch(&bench, &Wanted::at(&server.put(path, source)))
            .await
            .unwrap();
        assert_eq!(
            (streamed.size, streamed.sha256),
            (200_000, sha(&body)),
            "{path}"
        );
        assert!(
            server.gets(path).iter().all(|get| get.range.is_none()),
            "offsets differ"
        );
    }
}

#[tokio::test]
async fn a_compressed_body_that_ends_early_is_not_taken_for_whole() {
    let (server, bench, body) = (Hostile::start().await, bench(), noise(20_000));
    let sent = gzip(&body);
    let source = Source::of(&sent[..sent.len() - 9]).header("Content-Encoding", "gzip");
    let error = fetch(&bench, &Wanted::at(&server.put("/a", source)))
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

#[tokio::test]
async fn a_bomb_is_not_unpacked() {
    let (server, bench) = (Hostile::start().await, bench());
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 100_000);
    let source = Source::of(&bomb).header("Content-Encoding", "gzip");
    let error = fetch(&bench, &Wanted::at(&server.put("/a", source)))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::DecompressedTooLarge, false)
    );
    assert_eq!(bench.staged(), Vec::<String>::new());

    // A large ratio is fine as long as the content is small.
    let small = gzip(&vec![0; 1 << 20]);
    let source = Source::of(&small).header("Content-Encoding", "gzip");
    let streamed = fetch(&bench, &Wanted::at(&server.put("/b", source)))
        .await
        .unwrap();
    assert_eq!(streamed.size, 1 << 20);
}

#[tokio::test]
async fn an_encoding_that_is_not_known_is_refused() {
    let (server, bench) = (Hostile::start().await, bench());
    let source = Source::of(b"x").header("Content-Encoding", "br");
    let error = fetch(&bench, &Wanted::at(&server.put("/a", source)))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::UnsupportedEncoding, false)
    );
}

//! Requests through a watched connection, whole and in pieces.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What hyper would read of `bytes` that come `piece` at a time, and which request is refused.
async fn through(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<u64>) {
    let (mut client, server) = tokio::io::duplex(piece);
    let watch = Arc::new(Watch::default());
    let mut watched = Watched::new(server, Arc::clone(&watch), 8192);
    let bytes = bytes.to_vec();
    let sent = tokio::spawn(async move { client.write_all(&bytes).await });
    let mut read = Vec::new();
    watched.read_to_end(&mut read).await.unwrap();
    sent.await.unwrap().unwrap();
    (
        read,
        (0..10).find(|number| watch.refused(*number).is_some()),
    )
}

const GET: &str = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello";
const CHUNKED: &str = "PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
const BOTH: &str =
    "POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /admin";

#[tokio::test]
async fn clear_requests_pass_unchanged_however_they_come() {
    let all = format!("{GET}{POST}{CHUNKED}{POST}{GET}");
    for piece in [1, 2, 3, 7, 64, 4096] {
        assert_eq!(
            through(all.as_bytes(), piece).await,
            (all.clone().into_bytes(), None)
        );
    }
}

/// What hyper reads of each piece, which is sent once the one before it is read, and which request is refused.
async fn one_by_one(pieces: &[&[u8]]) -> (Vec<u8>, Option<u64>) {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let watch = Arc::new(Watch::default());
    let mut watched = Watched::new(server, Arc::clone(&watch), 8192);
    let (mut read, mut room) = (Vec::new(), vec![0; 16 * 1024]);
    for piece in pieces {
        client.write_all(piece).await.unwrap();
        let some = watched.read(&mut room).await.unwrap();
        read.extend_from_slice(&room[..some]);
    }
    drop(client);
    watched.read_to_end(&mut read).await.unwrap();
    let refused = (0..10).find(|number| watch.refused(*number).is_some());
    (read, refused)
}

#[tokio::test]
async fn a_head_that_comes_whole_passes_with_as_much_of_its_body_as_came() {
    let post = POST.as_bytes();
    for cut in POST.len() - 5..=POST.len() {
        let (head, rest) = post.split_at(cut);
        // What follows the body in one piece with it is a head again, and judged.
        let rest = [rest, GET.as_bytes(), BOTH.as_bytes()].concat();
        let (read, refused) = one_by_one(&[GET.as_bytes(), head, &rest]).await;
        let clear = [GET, POST, GET].concat();
        assert_eq!(read, [clear.as_bytes(), STAND_IN].concat(), "{cut}");
        assert_eq!(refused, Some(3));
    }
}

#[tokio::test]
async fn two_requests_in_one_piece_are_both_judged() {
    let both = [POST.as_bytes(), BOTH.as_bytes()].concat();
    let (read, refused) = one_by_one(&[&both]).await;
    assert_eq!(read, [POST.as_bytes(), STAND_IN].concat());
    assert_eq!(refused, Some(1));
}

#[tokio::test]
async fn the_beginning_of_http2_is_known_when_it_comes_alone() {
    let frames = b"SM\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: x\r\n\r\n";
    let (read, refused) = one_by_one(&[HTTP2_PREFACE, frames]).await;
    assert_eq!(read, [HTTP2_PREFACE, frames].concat());
    assert_eq!(refused, None);
}

#[tokio::test]
async fn reading_into_no_room_is_not_the_end() {
    let (mut client, server) = tokio::io::duplex(4096);
    let mut watched = Watched::new(server, Arc::default(), 8192);
    client.write_all(GET.as_bytes()).await.unwrap();
    assert_eq!(watched.read(&mut []).await.unwrap(), 0);
    let mut read = vec![0; GET.len()];
    watched.read_exact(&mut read).await.unwrap();
    assert_eq!(read, GET.as_bytes());
}

#[tokio::test]
async fn an_unclear_head_is_replaced_and_nothing_passes_after_it() {
    for (before, number) in [
        ("", 0),
        (GET, 1),
        (POST, 1),
        (&format!("{CHUNKED}{POST}")[..], 2),
    ] {
        for piece in [1, 5, 4096] {
            let (read, refused) = through(format!("{before}{BOTH}").as_bytes(), piece).await;
            assert_eq!(read, [before.as_bytes(), STAND_IN].concat());
            assert_eq!(refused, Some(number));
        }
    }
}

#[tokio::test]
async fn http2_and_what_follows_an_upgrade_pass_unseen() {
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: x\r\n\r\n";
    assert_eq!(
        through(preface.as_bytes(), 3).await,
        (preface.as_bytes().to_vec(), None)
    );
    let (mut client, server) = tokio::io::duplex(4096);
    let watch = Arc::new(Watch::default());
    let mut watched = Watched::new(server, Arc::clone(&watch), 8192);
    client.write_all(GET.as_bytes()).await.unwrap();
    let mut first = [0; GET.len()];
    watched.read_exact(&mut first).await.unwrap();
    watch.open();
    client.write_all(BOTH.as_bytes()).await.unwrap();
    drop(client);
    let mut rest = Vec::new();
    watched.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, BOTH.as_bytes());
}

#[tokio::test]
async fn a_head_that_never_ends_or_is_none_is_passed_on_and_marked() {
    let hello = "\x16\x03\x01 not HTTP at all";
    assert_eq!(
        through(hello.as_bytes(), 1).await,
        (hello.as_bytes().to_vec(), Some(0))
    );
    let long = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(9000));
    let (read, refused) = through(long.as_bytes(), 4096).await;
    assert_eq!((read.len(), refused), (long.len(), Some(0)));
}

/// A client that has sent one request and nothing more, and the request, which hyper has read.
async fn ended(lasts: Duration) -> (tokio::io::DuplexStream, impl AsyncRead + Unpin, Arc<Busy>) {
    let (mut client, server) = tokio::io::duplex(4096);
    let (busy, watch) = (Arc::new(Busy::default()), Arc::new(Watch::default()));
    let mut watched = Watched::new(server, watch, 8192).patient(Arc::clone(&busy), lasts);
    client.write_all(GET.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let mut head = vec![0; GET.len()];
    watched.read_exact(&mut head).await.unwrap();
    (client, watched, busy)
}

#[tokio::test]
async fn the_end_of_what_a_client_sends_is_kept_back_while_it_waits_for_an_answer() {
    let (_client, mut watched, busy) = ended(Duration::from_secs(3600)).await;
    let request = Busy::enter(&busy);
    let early = tokio::time::timeout(Duration::from_millis(20), watched.read_u8()).await;
    assert!(early.is_err(), "the request is being answered");
    drop(request);
    let end = watched.read_u8().await.unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_client_that_takes_its_answer_is_waited_for_as_long_as_it_does() {
    let lasts = Duration::from_millis(50);
    let (_client, mut watched, busy) = ended(lasts).await;
    let answer = axum::response::Response::new(axum::body::Body::from("an answer"));
    let mut answer = Busy::enter(&busy).sends(answer);
    let begun = tokio::time::Instant::now();
    let (end, ()) = tokio::join!(watched.read_u8(), async {
        sleep(lasts / 2).await;
        http_body_util::BodyExt::frame(answer.body_mut()).await;
    });
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    // The piece was taken in the first round of patience, so there was a second.
    assert!(begun.elapsed() >= 2 * lasts);
}

#[tokio::test]
async fn a_client_that_may_have_gone_is_not_answered_for_ever() {
    let (_client, mut watched, busy) = ended(Duration::from_millis(20)).await;
    let _request = Busy::enter(&busy);
    let end = watched.read_u8().await.unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
}

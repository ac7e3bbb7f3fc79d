//! Bodies that arrive at once, in pieces, and never. Nothing here sends a request.

use super::*;
use http_body_util::{Full, StreamBody};
use tokio::sync::mpsc;

type Frame = Result<http_body::Frame<Bytes>, &'static str>;

fn tenant(number: u128) -> Tenant {
    Tenant::from_uuid(uuid::Uuid::from_u128(number))
}

fn full(bytes: usize) -> Full<Bytes> {
    Full::new(vec![b'x'; bytes].into())
}

/// A body whose pieces come when the test sends them.
struct Slow {
    send: mpsc::UnboundedSender<Frame>,
    read: tokio::task::JoinHandle<Result<(Bytes, Hold), Unread<&'static str>>>,
}

impl Slow {
    fn begin(budget: &Budget, of: Tenant) -> Self {
        let (send, mut receive) = mpsc::unbounded_channel();
        let body = StreamBody::new(futures_util::stream::poll_fn(move |context| {
            receive.poll_recv(context)
        }));
        let budget = budget.clone();
        let read = tokio::spawn(async move { budget.read(of, body, 1 << 20).await });
        Self { send, read }
    }

    /// Sends a piece, and waits until so many bytes are held altogether.
    async fn sends(&self, budget: &Budget, bytes: usize, held: usize) {
        let frame = http_body::Frame::data(vec![b'x'; bytes].into());
        self.send.send(Ok(frame)).unwrap();
        while budget.held() != held {
            tokio::task::yield_now().await;
        }
    }

    async fn ends(self) -> Result<(Bytes, Hold), Unread<&'static str>> {
        drop(self.send);
        self.read.await.unwrap()
    }
}

#[tokio::test]
async fn what_arrives_counts_and_what_is_announced_does_not() {
    let budget = Budget::new(1 << 20);
    let slow = Slow::begin(&budget, tenant(1));
    assert_eq!(budget.held(), 0);
    slow.sends(&budget, 1, BUFFER_BYTES_MIN).await;
    slow.sends(&budget, 999, 1024).await;
    let (bytes, hold) = slow.ends().await.unwrap();
    assert_eq!((bytes.len(), budget.held()), (1000, 1024));
    drop(hold);
    assert_eq!(budget.held(), 0);
    assert!(budget.locked().arriving.is_empty() && budget.locked().by_tenant.is_empty());
}

#[tokio::test]
async fn the_body_that_has_been_arriving_for_longest_gives_way() {
    let budget = Budget::new(4096);
    let (first, second) = (
        Slow::begin(&budget, tenant(1)),
        Slow::begin(&budget, tenant(2)),
    );
    first.sends(&budget, 1024, 1024).await;
    second.sends(&budget, 1024, 2048).await;
    let (_, hold) = budget.read(tenant(3), full(2048), 4096).await.unwrap();
    let (_, more) = budget.read(tenant(4), full(512), 4096).await.unwrap();
    assert!(matches!(first.ends().await, Err(Unread::Exhausted)));
    assert!(second.ends().await.is_ok(), "one was enough");
    drop((hold, more));
}

#[tokio::test]
async fn what_gives_way_is_never_younger_than_what_it_makes_room_for() {
    let budget = Budget::new(2048);
    let (old, young) = (
        Slow::begin(&budget, tenant(1)),
        Slow::begin(&budget, tenant(2)),
    );
    old.sends(&budget, 512, 512).await;
    young.sends(&budget, 1024, 1536).await;
    let frame = http_body::Frame::data(vec![b'x'; 1000].into());
    old.send.send(Ok(frame)).unwrap();
    assert!(matches!(old.ends().await, Err(Unread::Exhausted)));
    assert!(young.ends().await.is_ok());
}

#[tokio::test]
async fn one_tenant_leaves_half_to_the_others() {
    let budget = Budget::new(1000);
    let (_, first) = budget.read(tenant(1), full(400), 1000).await.unwrap();
    let refused = budget.read(tenant(1), full(200), 1000).await;
    assert!(matches!(refused, Err(Unread::Exhausted)));
    assert!(budget.read(tenant(2), full(500), 1000).await.is_ok());
    drop(first);
    assert!(
        budget.read(tenant(1), full(1000), 1000).await.is_ok(),
        "its only one"
    );
}

#[tokio::test]
async fn answers_have_room_when_requests_have_none() {
    let budget = Budget::new(1000);
    let (_, one) = budget.read(tenant(1), full(500), 1000).await.unwrap();
    let (_, two) = budget.read(tenant(2), full(500), 1000).await.unwrap();
    assert!(budget.read(tenant(3), full(1), 1000).await.is_err());
    let answer = budget.hold(tenant(1), 200).unwrap();
    assert!(
        budget.hold(tenant(2), 51).is_none(),
        "a quarter, and no more"
    );
    let bytes = answer.around(Bytes::from_static(b"sent"));
    drop((one, two));
    assert_eq!(budget.held(), 200, "the answer is not sent yet");
    drop(bytes.slice(1..));
    drop(bytes);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn a_body_that_is_too_large_or_breaks_off_holds_nothing() {
    let budget = Budget::new(1000);
    let refused = budget.read(tenant(1), full(11), 10).await;
    assert!(matches!(refused, Err(Unread::TooLarge)));
    let slow = Slow::begin(&budget, tenant(1));
    slow.sends(&budget, 500, 512).await;
    slow.send.send(Err("broken")).unwrap();
    assert!(matches!(slow.ends().await, Err(Unread::Broken("broken"))));
    let slow = Slow::begin(&budget, tenant(1));
    slow.sends(&budget, 500, 512).await;
    slow.read.abort();
    assert!(slow.ends_aborted().await);
    assert_eq!(budget.held(), 0);
}

impl Slow {
    async fn ends_aborted(self) -> bool {
        self.read.await.is_err_and(|error| error.is_cancelled())
    }
}

//! Two upgraded connections, joined: bytes go both ways until one side ends or both are silent.
//! What is said there is nobody's business here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::sleep;

/// Waits for both sides, then joins them until both have ended or neither said anything for `idle`.
pub(super) async fn join(client: OnUpgrade, upstream: OnUpgrade, idle: Duration) {
    let (client, upstream): (Upgraded, Upgraded) = match tokio::try_join!(client, upstream) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "an upgrade did not happen");
            return;
        }
    };
    let (client_in, client_out) = split(TokioIo::new(client));
    let (upstream_in, upstream_out) = split(TokioIo::new(upstream));
    let moves = AtomicU64::new(0);
    let both = async {
        tokio::join!(
            copy(client_in, upstream_out, &moves),
            copy(upstream_in, client_out, &moves),
        );
    };
    tokio::select! {
        () = both => {}
        () = silent(&moves, idle) => tracing::debug!("a silent tunnel is closed"),
    }
}

/// Copies until the source ends, and passes the end on.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moves: &AtomicU64,
) {
    let mut piece = vec![0; 16 * 1024];
    loop {
        moves.fetch_add(1, Ordering::Relaxed);
        let Ok(read) = from.read(&mut piece).await else {
            break;
        };
        if read == 0 || to.write_all(&piece[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    // The other side may be gone already.
    let _ = to.shutdown().await;
}

/// Ends once nothing moved for `idle`.
async fn silent(moves: &AtomicU64, idle: Duration) {
    let mut before = None;
    loop {
        let now = moves.load(Ordering::Relaxed);
        if before == Some(now) {
            return;
        }
        before = Some(now);
        sleep(idle).await;
    }
}

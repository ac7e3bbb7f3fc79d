//! Work that runs to its end whoever still waits for it. While somebody waits it runs in their task, which costs no
//! task and no wake-up of its own; when they go away it goes on in a task that it gets then.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TrackedFuture;

use super::Engine;

type Work<T> = TrackedFuture<Pin<Box<dyn Future<Output = T> + Send>>>;

/// The future of [`Engine::outlive`]. Dropping it does not end the work.
#[must_use = "the work begins when it is polled"]
pub struct Outliving<T: Send + 'static> {
    /// Gone once it has ended.
    work: Option<Work<T>>,
    has_begun: bool,
    /// Still set when the future is dropped: the work panicked, and must not be polled again.
    is_polled: bool,
}

impl<T: Send + 'static> std::fmt::Debug for Outliving<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outliving")
            .field("has_begun", &self.has_begun)
            .field("has_ended", &self.work.is_none())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Runs `work` so that it outlives whoever waits for it once it has begun, and is joined by [`Engine::drain`].
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use hapax::{Engine, store::MemoryLedger};
    ///
    /// let engine = Engine::new(std::sync::Arc::new(MemoryLedger::new()));
    /// assert_eq!(engine.outlive(async { 7 }).await, 7);
    ///
    /// // Whoever waits goes away in the middle; the work does not.
    /// let (go, waits) = tokio::sync::oneshot::channel::<()>();
    /// let (said, hears) = tokio::sync::oneshot::channel();
    /// let work = async move {
    ///     waits.await.ok();
    ///     said.send("all of it").ok();
    /// };
    /// let gone = tokio::time::timeout(std::time::Duration::from_millis(1), engine.outlive(work)).await;
    /// assert!(gone.is_err());
    /// go.send(()).ok();
    /// assert_eq!(hears.await?, "all of it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outlive<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Outliving<T> {
        Outliving {
            work: Some(self.tasks.track_future(Box::pin(work))),
            has_begun: false,
            is_polled: false,
        }
    }
}

impl Engine {
    /// Runs `work` in a task of its own, which [`Engine::drain`] joins.
    #[cfg(feature = "layer")]
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }
}

impl<T: Send + 'static> Future for Outliving<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let work = this.work.as_mut().expect("it is not polled after its end");
        (this.has_begun, this.is_polled) = (true, true);
        let polled = Pin::new(work).poll(context);
        this.is_polled = false;
        if polled.is_ready() {
            this.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Outliving<T> {
    fn drop(&mut self) {
        if !self.has_begun || self.is_polled {
            return;
        }
        // Without a runtime there is nowhere to go on: the process ends, and the lease runs out.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;
    use hapax_store::MemoryLedger;

    use super::*;

    fn engine() -> Engine {
        Engine::new(Arc::new(MemoryLedger::new()))
    }

    #[tokio::test]
    async fn work_that_nobody_began_to_wait_for_does_not_run() {
        let ran = Arc::new(AtomicU32::new(0));
        let counted = ran.clone();
        let engine = engine();
        drop(engine.outlive(async move { counted.fetch_add(1, Ordering::SeqCst) }));
        assert!(engine.drain(Duration::from_secs(5)).await);
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn draining_waits_for_work_whose_caller_went_away() {
        let ran = Arc::new(AtomicU32::new(0));
        let (counted, engine) = (ran.clone(), engine());
        let mut work = Box::pin(engine.outlive(async move {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            counted.fetch_add(1, Ordering::SeqCst)
        }));
        assert!(work.as_mut().now_or_never().is_none());
        drop(work);
        assert!(engine.drain(Duration::from_secs(5)).await);
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn work_that_panicked_is_not_polled_again() {
        let engine = engine();
        let work = engine.outlive(async { panic!("a bug in a handler") });
        let ended = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        assert!(ended.is_err());
        assert!(engine.drain(Duration::from_secs(5)).await);
    }
}

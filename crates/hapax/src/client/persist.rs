//! Storing the key before it is used. Whether and where is the caller's business.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::Key;

use super::{BoxError, Request};

impl Request {
    /// Stores the key before the first byte is sent. If `store` fails, nothing is sent.
    ///
    /// With the key on disk or in the row of your order, a process that dies here asks again under the same
    /// key when it comes back. It is called once per key, so a second time if a conflict is resolved with
    /// another key, and on a thread where it may block.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let app = axum::Router::new().route("/", axum::routing::post(|| async {}));
    /// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let url = format!("http://{}/", listener.local_addr()?);
    /// # tokio::spawn(async move { axum::serve(listener, app).await });
    /// # let folder = tempfile::tempdir()?;
    /// use hapax::client::{Client, Error};
    /// use std::{fs::File, io::Write};
    ///
    /// let path = folder.path().join("order-7.key");
    /// let file = path.clone();
    /// let answer = Client::new()?
    ///     .post(&url)
    ///     .persist(move |key| {
    ///         let mut file = File::create(&file)?;
    ///         file.write_all(key.as_str().as_bytes())?;
    ///         file.sync_all()
    ///     })
    ///     .send()
    ///     .await?;
    /// assert_eq!(std::fs::read_to_string(path)?, answer.key.as_str());
    ///
    /// // The refusal: what could not be stored is not sent.
    /// let refused = Client::new()?.post(&url).persist(|_key| Err("the disk is full")).send().await;
    /// assert!(matches!(refused, Err(Error::NotPersisted { attempts: 0, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn persist<F, E>(mut self, store: F) -> Self
    where
        F: FnMut(&Key) -> Result<(), E> + Send + 'static,
        E: Into<BoxError>,
    {
        self.persist = Some(Persist::blocking(store));
        self
    }

    /// Like [`persist`](Self::persist), for a store that is awaited, such as a database.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let app = axum::Router::new().route("/", axum::routing::post(|| async {}));
    /// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let url = format!("http://{}/", listener.local_addr()?);
    /// # tokio::spawn(async move { axum::serve(listener, app).await });
    /// let (rows, mut stored) = tokio::sync::mpsc::channel(1);
    /// let answer = hapax::client::Client::new()?
    ///     .post(&url)
    ///     .persist_async(move |key| {
    ///         let rows = rows.clone();
    ///         async move { rows.send(key).await }
    ///     })
    ///     .send()
    ///     .await?;
    /// assert_eq!(stored.recv().await, Some(answer.key));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn persist_async<F, Fut, E>(mut self, store: F) -> Self
    where
        F: FnMut(Key) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.persist = Some(Persist::awaiting(store));
        self
    }
}

type Stored = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

type Hook = Box<dyn FnMut(Key) -> Stored + Send>;

/// Stores a key. Called once per key, before the first byte is sent under it.
///
/// The mutex is never locked: it makes a request with a hook `Sync`, and so its future `Send`.
pub(super) struct Persist(Mutex<Hook>);

impl Persist {
    pub(super) fn awaiting<F, Fut, E>(mut hook: F) -> Self
    where
        F: FnMut(Key) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self(Mutex::new(Box::new(move |key| {
            let stored = hook(key);
            Box::pin(async move { stored.await.map_err(Into::into) })
        })))
    }

    /// The hook may write to a disk, so it runs where blocking is allowed.
    pub(super) fn blocking<F, E>(hook: F) -> Self
    where
        F: FnMut(&Key) -> Result<(), E> + Send + 'static,
        E: Into<BoxError>,
    {
        let hook = Arc::new(Mutex::new(hook));
        Self::awaiting(move |key| {
            let hook = hook.clone();
            let call = move || {
                let mut hook = hook.lock().unwrap_or_else(PoisonError::into_inner);
                hook(&key).map_err(Into::into)
            };
            async move {
                match tokio::task::spawn_blocking(call).await {
                    Ok(stored) => stored,
                    Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
                    Err(ended) => Err(BoxError::from(ended)),
                }
            }
        })
    }

    pub(super) async fn store(&mut self, key: Key) -> Result<(), BoxError> {
        let hook = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        hook(key).await
    }
}

//! The answer to a request. Refusals are in [`Error`].

use std::fmt;

use bytes::Bytes;
use hapax_core::Key;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::{Conflict, Error};

/// What the server answered, now or when it was first asked.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let app = axum::Router::new().route("/", axum::routing::post(|| async { (http::StatusCode::CREATED, r#"{"id":7}"#) }));
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let url = format!("http://{}/", listener.local_addr()?);
/// # tokio::spawn(async move { axum::serve(listener, app).await });
/// use hapax::client::{Client, Error};
///
/// let answer = Client::new()?.post(&url).send().await?;
/// assert_eq!((answer.status.as_u16(), answer.attempts, answer.replayed), (201, 1, false));
/// assert_eq!(answer.json::<serde_json::Value>()?["id"], 7);
///
/// // The refusal: what came is not what the caller hoped for.
/// assert!(matches!(answer.json::<String>(), Err(Error::Unreadable { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Answer {
    /// The status: a 2xx or 3xx, since a refusal is an [`Error`].
    pub status: StatusCode,
    /// The response headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// Whether the server had recorded this answer earlier and did nothing now.
    pub replayed: bool,
    /// The conflict that was met before and resolved with another key, if there was one.
    pub conflict: Option<Box<Conflict>>,
    /// How many times the request was sent, under all its keys.
    pub attempts: u32,
    /// The key the answer is recorded under.
    pub key: Key,
}

impl Answer {
    /// The body, read as JSON.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when it is not the JSON that `T` needs.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|source| Error::Unreadable {
            key: self.key.clone(),
            attempts: self.attempts,
            source,
        })
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("key", &self.key)
            .field("replayed", &self.replayed)
            .field("conflict", &self.conflict)
            .field("attempts", &self.attempts)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

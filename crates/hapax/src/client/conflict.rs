//! A key that stands for another request, and what the caller wants done about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::Key;
use http::StatusCode;
use serde_json::Value;

use super::Refusal;

/// The same key was used before, for another request. Nothing was done for this one.
///
/// Every fact the server left out is `None` or empty: it tells hashes and differences only to the
/// principal that sent the first request.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let app = axum::Router::new().route("/", axum::routing::post(|| async {
/// #     let body = r#"{"error":{"code":"IDEMPOTENCY_CONFLICT","message":"no","details":{"diff_summary":["amount: '10' → '99'"]}}}"#;
/// #     (http::StatusCode::CONFLICT, body)
/// # }));
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let url = format!("http://{}/", listener.local_addr()?);
/// # tokio::spawn(async move { axum::serve(listener, app).await });
/// use hapax::client::{Client, Error};
/// use hapax::core::Key;
///
/// let error = Client::new()?.post(&url).key(Key::new("order-7")?).send().await.unwrap_err();
/// assert_eq!(error.to_string(), "the key order-7 stands for another request (amount: '10' → '99')");
/// let Error::Conflict { conflict, .. } = error else { unreachable!() };
/// assert_eq!(conflict.diff_summary.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Conflict {
    /// The key that was sent.
    pub key: Key,
    /// The status: 409, or 422 where the server follows the IETF draft.
    pub status: StatusCode,
    /// What the server says to people.
    pub message: String,
    /// The key as the server has it.
    pub original_key: Option<String>,
    /// The content hash of this request, shortened.
    pub current_hash: Option<String>,
    /// The content hash of the first request, shortened.
    pub original_hash: Option<String>,
    /// Which parts differ: body, path, query, method, content_type, principal. Empty where the server does not say.
    pub differs: Vec<String>,
    /// How the two differ, one line each: `amount: '10' → '99'`.
    pub diff_summary: Vec<String>,
    /// When the first request came, in RFC 3339.
    pub original_timestamp: Option<String>,
    /// When the key will be free again.
    pub retry_after: Option<Duration>,
    /// The id under which the server logged it.
    pub trace_id: Option<String>,
}

impl Conflict {
    pub(super) fn of(refusal: &Refusal, key: &Key) -> Self {
        let text = |name: &str| {
            refusal
                .details
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let line = |line: &Value| {
            line.as_str()
                .map_or_else(|| line.to_string(), str::to_owned)
        };
        let lines = |name: &str| -> Vec<String> {
            let lines = refusal.details.get(name).and_then(Value::as_array);
            lines.into_iter().flatten().map(line).collect()
        };
        Self {
            key: key.clone(),
            status: refusal.status,
            message: refusal.message.clone(),
            original_key: text("original_key"),
            current_hash: text("current_hash"),
            original_hash: text("original_hash"),
            differs: lines("differs"),
            diff_summary: lines("diff_summary"),
            original_timestamp: text("original_timestamp"),
            retry_after: refusal
                .details
                .get("retry_after")
                .and_then(Value::as_u64)
                .map(Duration::from_secs),
            trace_id: refusal.trace_id.clone(),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key {} stands for another request", self.key)?;
        match &self.diff_summary[..] {
            [] if self.differs.is_empty() => Ok(()),
            [] => write!(f, " (another {})", self.differs.join(", another ")),
            [only] => write!(f, " ({only})"),
            [first, rest @ ..] => write!(f, " ({first}, and {} more)", rest.len()),
        }
    }
}

/// What to do when the key stands for another request.
///
/// A new key means that the request is carried out beside the first one. That is right only where the two
/// are different on purpose and the key was the mistake; so it is never done unasked, and once per request.
///
/// ```
/// use hapax::client::{OnConflict, Resolution};
///
/// let only_if_the_note_differs = OnConflict::ask(|conflict| {
///     if conflict.diff_summary.iter().all(|line| line.starts_with("note:")) {
///         Resolution::RetryWithNewKey
///     } else {
///         Resolution::Fail
///     }
/// });
/// # let _ = only_if_the_note_differs;
/// ```
#[derive(Clone, Default)]
pub enum OnConflict {
    /// The request ends with [`Error::Conflict`](super::Error::Conflict).
    #[default]
    Fail,
    /// The request is sent once more, under a new UUIDv7.
    RetryWithNewKey,
    /// This function says what to do.
    Ask(Arc<dyn Fn(&Conflict) -> Resolution + Send + Sync>),
}

impl OnConflict {
    /// Asks `resolve` what to do.
    ///
    /// ```
    /// use hapax::client::{Client, OnConflict, Resolution};
    ///
    /// let request = Client::new()?
    ///     .post("http://127.0.0.1:8088/payments")
    ///     .on_conflict(OnConflict::ask(|_conflict| Resolution::Fail));
    /// # Ok::<(), hapax::client::Error>(())
    /// ```
    pub fn ask(resolve: impl Fn(&Conflict) -> Resolution + Send + Sync + 'static) -> Self {
        Self::Ask(Arc::new(resolve))
    }

    /// The key to go on with, if the caller wants to.
    pub(super) fn resolve(&self, conflict: &Conflict) -> Option<Key> {
        let resolution = match self {
            OnConflict::Fail => Resolution::Fail,
            OnConflict::RetryWithNewKey => Resolution::RetryWithNewKey,
            OnConflict::Ask(resolve) => resolve(conflict),
        };
        match resolution {
            Resolution::Fail => None,
            Resolution::RetryWithNewKey => Some(super::derive::random()),
            Resolution::RetryWithKey(key) => Some(key),
        }
    }
}

impl fmt::Debug for OnConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnConflict::Fail => "Fail",
            OnConflict::RetryWithNewKey => "RetryWithNewKey",
            OnConflict::Ask(_) => "Ask",
        })
    }
}

/// What the function in [`OnConflict::Ask`] decides.
///
/// ```
/// use hapax::client::Resolution;
/// use hapax::core::Key;
///
/// let second_try_of_order_7 = Resolution::RetryWithKey(Key::new("order-7-corrected")?);
/// assert_ne!(second_try_of_order_7, Resolution::Fail);
/// # Ok::<(), hapax::core::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// End with [`Error::Conflict`](super::Error::Conflict).
    Fail,
    /// Send once more, under a new UUIDv7.
    RetryWithNewKey,
    /// Send once more, under this key.
    RetryWithKey(Key),
}

//! One try: a request goes out, its answer is read to the end or to its limit. Whether there is another try is decided
//! elsewhere.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use reqwest::{Body, Client, Method, RequestBuilder, Response};
use url::Url;

use super::config::KEY;
use super::form::Form;
use super::refusal::told_bytes;
use super::wait::retry_after;
use super::{LlmError, Secret};
use crate::client::{Base, told};

/// How much of a refusal is read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Who we are to the provider, and where that may be said.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) base: Base,
    pub(super) bearer: HeaderValue,
    pub(super) key: Secret,
}

/// What is sent in each try.
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Content>,
    pub(super) timeout: Duration,
    pub(super) answer_bytes_max: usize,
}

/// The body of a request.
pub(super) enum Content {
    Json(Bytes),
    Form(Form),
}

impl Content {
    pub(super) fn json(bytes: Bytes) -> Self {
        Self::Json(bytes)
    }

    fn of(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Json(bytes) => request
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(bytes.clone()),
            Self::Form(form) => request
                .header(CONTENT_TYPE, form.content_type.as_str())
                .header(CONTENT_LENGTH, form.bytes())
                .body(Body::wrap_stream(form.pieces())),
        }
    }
}

/// A whole answer with a 2xx.
pub(super) struct Received {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// A try that failed, and how long the provider wants to be left alone.
pub(super) struct Failed {
    pub(super) error: LlmError,
    pub(super) asked: Option<Duration>,
}

impl From<LlmError> for Failed {
    fn from(error: LlmError) -> Self {
        Self { error, asked: None }
    }
}

/// Sends it once.
pub(super) async fn attempt(
    client: &Client,
    credentials: &Credentials,
    outgoing: &Outgoing,
) -> Result<Received, Failed> {
    let exchange = exchange(client, credentials, outgoing);
    match tokio::time::timeout(outgoing.timeout, exchange).await {
        Ok(answer) => answer,
        // A connection has less time than this, so the request was sent.
        Err(_) => Err(Failed::from(LlmError::TimedOut {
            sent: true,
            why: format!("no answer within {:?}", outgoing.timeout),
        })),
    }
}

async fn exchange(
    client: &Client,
    credentials: &Credentials,
    outgoing: &Outgoing,
) -> Result<Received, Failed> {
    if !credentials.base.holds(&outgoing.url) {
        let why = "the request leads elsewhere than to the provider".to_owned();
        return Err(Failed::from(LlmError::Unreachable { why }));
    }
    let mut request = client
        .request(outgoing.method.clone(), outgoing.url.clone())
        .header(AUTHORIZATION, credentials.bearer.clone());
    if let Some(content) = &outgoing.body {
        request = content.of(request);
    }
    let response = request.send().await.map_err(|error| unanswered(&error))?;
    let status = response.status();
    if !status.is_success() {
        return Err(refused(response, credentials).await);
    }
    Ok(Received {
        status: status.as_u16(),
        body: read(response, outgoing.answer_bytes_max).await?,
    })
}

fn unanswered(error: &reqwest::Error) -> Failed {
    let why = told(error);
    Failed::from(match (error.is_connect(), error.is_timeout()) {
        (true, true) => LlmError::TimedOut { sent: false, why },
        (true, false) => LlmError::Unreachable { why },
        (false, _) if error.is_builder() => LlmError::Unreachable { why },
        (false, _) => LlmError::TimedOut { sent: true, why },
    })
}

async fn read(mut response: Response, bytes_max: usize) -> Result<Bytes, LlmError> {
    let too_large = LlmError::TooLarge {
        what: "the answer",
        sent: true,
        bytes_max,
    };
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).map_or(true, |bytes| bytes > bytes_max) {
        return Err(too_large);
    }
    let mut body = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > bytes_max => return Err(too_large),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body.freeze()),
            Err(error) => {
                return Err(LlmError::TimedOut {
                    sent: true,
                    why: format!("the answer broke off: {}", told(&error)),
                });
            }
        }
    }
}

/// What a refusal says, as far as it comes. Some say the key back to us.
async fn refused(mut response: Response, credentials: &Credentials) -> Failed {
    let status = response.status();
    let asked = retry_after(response.headers(), SystemTime::now());
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = REFUSAL_BYTES_MAX - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == REFUSAL_BYTES_MAX {
            break;
        }
    }
    // Before anything is cut: half a key is a key too.
    let body = String::from_utf8_lossy(&body).replace(credentials.key.reveal(), "[key]");
    let (code, message) = told_bytes(body.as_bytes());
    let message = if message.is_empty() {
        status.canonical_reason().unwrap_or_default().to_owned()
    } else {
        message
    };
    let error = match status.as_u16() {
        429 => LlmError::RateLimited {
            retry_after: asked,
            code,
            message,
        },
        status => LlmError::Refused {
            status,
            code,
            message,
        },
    };
    Failed {
        error: named(error, &credentials.base),
        asked,
    }
}

/// A refused key is told by its name and where it was refused: a provider's own words name neither.
fn named(error: LlmError, base: &Base) -> LlmError {
    if !error.is_unauthorized() {
        return error;
    }
    match error {
        LlmError::Refused {
            status,
            code,
            message,
        } => LlmError::Refused {
            status,
            code,
            message: format!("{KEY} was refused by {}: {message}", base.as_str()),
        },
        other => other,
    }
}

//! One try: the request goes out, the response is read to its end. What it means is decided elsewhere.

use bytes::{Bytes, BytesMut};
use hapax_core::Key;
use http::{HeaderValue, StatusCode};
use reqwest::Url;

use super::request::IDEMPOTENCY_KEY;
use super::verdict::Received;
use super::{BoxError, Request};

/// Why a try brought no response.
pub(super) enum Failure {
    /// The connection did not come up, or broke, or was too slow.
    Broken(BoxError),
    /// There is a response, over the limit.
    TooLarge(StatusCode),
    /// reqwest cannot make a request of it.
    Unsendable(reqwest::Error),
}

/// Sends it once and reads the response to its end.
pub(super) async fn attempt(request: &Request, url: &Url, key: &Key) -> Result<Received, Failure> {
    let mut headers = request.headers.clone();
    headers.insert(IDEMPOTENCY_KEY, header_of(key));
    let http = &request.client.http;
    let mut sent = http
        .request(request.method.clone(), url.clone())
        .headers(headers);
    if !request.body.is_empty() {
        sent = sent.body(request.body.clone());
    }
    let response = sent.send().await.map_err(|error| {
        let error = error.without_url();
        if error.is_builder() {
            Failure::Unsendable(error)
        } else {
            Failure::Broken(error.into())
        }
    })?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = read(response, request.limits.response_bytes_max).await?;
    Ok(Received {
        status,
        headers,
        body,
    })
}

async fn read(mut response: reqwest::Response, bytes_max: usize) -> Result<Bytes, Failure> {
    let status = response.status();
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).map_or(true, |bytes| bytes > bytes_max) {
        return Err(Failure::TooLarge(status));
    }
    let mut body = BytesMut::new();
    loop {
        let chunk = response
            .chunk()
            .await
            .map_err(|error| Failure::Broken(error.without_url().into()))?;
        let Some(chunk) = chunk else {
            return Ok(body.freeze());
        };
        if body.len() + chunk.len() > bytes_max {
            return Err(Failure::TooLarge(status));
        }
        body.extend_from_slice(&chunk);
    }
}

/// The key as a header value: bare, as most servers want it. One that begins with a quote would be taken
/// for an RFC 8941 string, so it is sent as one.
fn header_of(key: &Key) -> HeaderValue {
    let text = key.as_str();
    let quoted = text
        .starts_with('"')
        .then(|| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    HeaderValue::from_str(quoted.as_deref().unwrap_or(text)).expect("a key is visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_begins_with_a_quote_is_sent_as_a_quoted_string() {
        for (key, sent) in [
            ("order-7", "order-7"),
            ("a\"b", "a\"b"),
            ("\"a\\b\"", r#""\"a\\b\"""#),
        ] {
            assert_eq!(header_of(&Key::new(key).unwrap()), sent);
        }
    }
}

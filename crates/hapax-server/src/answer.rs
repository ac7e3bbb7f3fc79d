//! JSON answers: a document and a newline, so that the shell's prompt stands on a line of its own. What a refusal looks like
//! is `problem`'s business.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::problem::{self, Refusal};

/// A JSON answer of 200. Beside a status in a tuple it takes that.
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => ([(CONTENT_TYPE, "application/json")], ended(text)).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer has no JSON form");
                Refusal::from(problem::internal()).into_response()
            }
        }
    }
}

/// The JSON text with the newline that ends it.
pub(crate) fn ended(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

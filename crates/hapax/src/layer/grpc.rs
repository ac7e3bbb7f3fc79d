//! What a gRPC answer that has no message means, as an HTTP status: its own is 200 whatever happened. How our refusals
//! become gRPC's is not its business.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(super) const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(super) const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The status that says whether an answer is final: of a gRPC answer with its status in the head, what that means.
pub(super) fn meant<B>(response: &Response<B>) -> StatusCode {
    of_head(response.headers()).unwrap_or_else(|| response.status())
}

/// Whether these trailers say, as gRPC does beside a 200, that a credential was refused: `PERMISSION_DENIED` or
/// `UNAUTHENTICATED`. Like 401 and 403 that is never final.
pub(super) fn refuses_credential(headers: &HeaderMap) -> bool {
    let status = headers.get(STATUS).map(HeaderValue::as_bytes);
    matches!(status, Some(b"7" | b"16"))
}

fn of_head(headers: &HeaderMap) -> Option<StatusCode> {
    let kind = headers.get(CONTENT_TYPE)?.as_bytes();
    if !kind.starts_with(b"application/grpc") {
        return None;
    }
    let code: u8 = headers.get(STATUS)?.to_str().ok()?.parse().ok()?;
    Some(match code {
        0 => return None,
        // INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED: said for
        // good, as with any other 4xx.
        3 | 5 | 6 | 9..=12 => StatusCode::BAD_REQUEST,
        4 => StatusCode::GATEWAY_TIMEOUT,
        7 => StatusCode::FORBIDDEN,
        8 => StatusCode::TOO_MANY_REQUESTS,
        14 => StatusCode::SERVICE_UNAVAILABLE,
        16 => StatusCode::UNAUTHORIZED,
        // CANCELLED, UNKNOWN, INTERNAL, DATA_LOSS, and what is not known yet.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    })
}

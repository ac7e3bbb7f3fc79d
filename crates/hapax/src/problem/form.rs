//! The form that a caller understands a refusal in. What is refused is not its business.

use std::fmt::Write;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};

/// How a refusal is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The envelope `{"error": {"code", "message", "details"}, "trace_id"}`.
    Envelope,
    /// RFC 9457.
    Rfc9457,
    /// A gRPC answer without messages: 200, with `grpc-status` and `grpc-message` in the head.
    Grpc(GrpcType),
}

/// Which of its content types a gRPC call has, which its answer has too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrpcType {
    /// `application/grpc`.
    Plain,
    /// `application/grpc-web`.
    Web,
    /// `application/grpc-web-text`.
    WebText,
}

impl Form {
    /// The form for the sender of these headers: gRPC for a gRPC call, RFC 9457 where it is asked for by name.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        match GrpcType::of(headers) {
            Some(kind) => Self::Grpc(kind),
            None => Self::of_document(headers),
        }
    }

    /// The same for a service that has no gRPC calls.
    #[must_use]
    pub fn of_document(headers: &HeaderMap) -> Self {
        if accepts_problem_json(headers) {
            Self::Rfc9457
        } else {
            Self::Envelope
        }
    }
}

impl GrpcType {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(CONTENT_TYPE)?.as_bytes();
        let rest = value
            .split_at_checked("application/grpc".len())
            .filter(|(start, _)| start.eq_ignore_ascii_case(b"application/grpc"))?
            .1;
        let ends = |rest: &[u8]| rest.first().is_none_or(|byte| b"+; ".contains(byte));
        if ends(rest) {
            return Some(Self::Plain);
        }
        let rest = rest.strip_prefix(b"-web")?;
        if ends(rest) {
            return Some(Self::Web);
        }
        rest.strip_prefix(b"-text")
            .is_some_and(ends)
            .then_some(Self::WebText)
    }

    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Plain => "application/grpc",
            Self::Web => "application/grpc-web",
            Self::WebText => "application/grpc-web-text",
        })
    }
}

/// The gRPC status of a refusal: by its code where that says more than its HTTP status.
pub(super) fn grpc_status(code: &str, status: StatusCode) -> u8 {
    match (code, status.as_u16()) {
        ("IDEMPOTENCY_IN_PROGRESS", _) => 14,         // UNAVAILABLE
        ("IDEMPOTENCY_IN_DOUBT" | "erased", _) => 9,  // FAILED_PRECONDITION
        ("IDEMPOTENCY_CONFLICT", _) | (_, 409) => 10, // ABORTED
        (_, 401) => 16,                               // UNAUTHENTICATED
        (_, 403) => 7,                                // PERMISSION_DENIED
        (_, 404) => 5,                                // NOT_FOUND
        (_, 405 | 501) => 12,                         // UNIMPLEMENTED
        (_, 408 | 504) => 4,                          // DEADLINE_EXCEEDED
        (_, 413 | 429) => 8,                          // RESOURCE_EXHAUSTED
        (_, 502 | 503) => 14,                         // UNAVAILABLE
        (_, 400..=499) => 3,                          // INVALID_ARGUMENT
        (_, 500..=599) => 13,                         // INTERNAL
        _ => 2,                                       // UNKNOWN
    }
}

/// A text as `grpc-message` holds it: UTF-8, percent-encoded outside of visible ASCII and for the percent sign.
pub(super) fn grpc_message(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, 0x20..=0x7e) && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    HeaderValue::try_from(encoded).expect("printable ASCII")
}

/// Whether the caller asks for RFC 9457 by name.
#[must_use]
pub fn accepts_problem_json(headers: &HeaderMap) -> bool {
    let named = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|range| {
                let media_type = range.split(';').next().unwrap_or("").trim();
                media_type.eq_ignore_ascii_case("application/problem+json")
            })
        })
    };
    headers.get_all(ACCEPT).iter().any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(content_type: &'static str) -> Form {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Form::of(&headers)
    }

    #[test]
    fn a_grpc_call_is_known_by_its_content_type_and_by_nothing_like_it() {
        for (content_type, kind) in [
            ("application/grpc", GrpcType::Plain),
            ("application/grpc+proto", GrpcType::Plain),
            ("Application/gRPC; charset=utf-8", GrpcType::Plain),
            ("application/grpc-web+proto", GrpcType::Web),
            ("application/grpc-web-text", GrpcType::WebText),
        ] {
            assert_eq!(form(content_type), Form::Grpc(kind), "{content_type}");
        }
        for other in [
            "application/json",
            "application/grpcx",
            "application/grpc-webby",
            "text/plain",
        ] {
            assert_eq!(form(other), Form::Envelope, "{other}");
        }
    }

    #[test]
    fn every_kind_of_refusal_has_its_grpc_status() {
        for (code, status, expected) in [
            ("IDEMPOTENCY_CONFLICT", 409, 10),
            ("IDEMPOTENCY_CONFLICT", 422, 10),
            ("IDEMPOTENCY_IN_PROGRESS", 409, 14),
            ("IDEMPOTENCY_IN_DOUBT", 409, 9),
            ("erased", 410, 9),
            ("idempotency_key_required", 400, 3),
            ("unauthorized", 401, 16),
            ("forbidden", 403, 7),
            ("payload_too_large", 413, 8),
            ("rate_limited", 429, 8),
            ("store_unavailable", 503, 14),
            ("downstream_failed", 502, 14),
            ("downstream_timeout", 504, 4),
            ("internal", 500, 13),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(grpc_status(code, status), expected, "{code} {status}");
        }
    }

    #[test]
    fn a_message_is_percent_encoded_as_grpc_has_it() {
        assert_eq!(grpc_message("100% of 'é'\n"), "100%25 of '%C3%A9'%0A");
    }
}

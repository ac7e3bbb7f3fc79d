//! Headers that a `Connection` header must not name. Whoever names one there has the next proxy remove it, so that two
//! servers in a row see different requests. It does not remove anything itself.

/// The headers that say who asks, for what and with which body. They belong to the whole way, whatever a client says.
const NAMES: [&[u8]; 5] = [
    b"authorization",
    b"cookie",
    b"forwarded",
    b"host",
    b"idempotency-key",
];

/// The same for every name that begins so.
const PREFIXES: [&[u8]; 2] = [b"content-", b"x-forwarded-"];

/// The headers that a `Connection` header must not name, those of the configuration among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndToEnd {
    configured: Vec<Vec<u8>>,
}

impl EndToEnd {
    /// The headers that are always protected, and these.
    pub(crate) fn with<'a>(configured: impl IntoIterator<Item = &'a str>) -> Self {
        let configured = configured.into_iter().map(plain).collect();
        Self { configured }
    }

    /// Whether the value of a `Connection` header names one of them. Names end where a name cannot go on, at whatever
    /// another server may take for the end of an element.
    pub(super) fn are_named_in(&self, value: &[u8]) -> bool {
        let mut names = value.split(|byte| !is_of_a_name(*byte));
        names.any(|name| self.holds(&plain(name)))
    }

    fn holds(&self, name: &[u8]) -> bool {
        NAMES.contains(&name)
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || self.configured.iter().any(|configured| configured == name)
    }
}

/// A name as the laxest server reads it: letter case does not count, and an underscore is a hyphen.
fn plain(name: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = name.as_ref().iter();
    bytes
        .map(|byte| match byte {
            b'_' => b'-',
            byte => byte.to_ascii_lowercase(),
        })
        .collect()
}

/// Whether a byte can be one of a header's name.
fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_whole_way_are_found_however_they_are_written() {
        let guarded = EndToEnd::with(["X-Tenant"]);
        for value in [
            "host",
            "Authorization",
            "close, COOKIE",
            "content-type",
            "Content-Length",
            "content-anything",
            "idempotency-key",
            "Idempotency_Key",
            "forwarded",
            "x-forwarded-for",
            "X_Forwarded_Host",
            "x-tenant",
            "x_tenant",
            ",,\t Cookie ,",
            "close\tcookie",
            "cookie;q=1",
            "\"cookie\"",
            "te=cookie",
            "keep-alive,upgrade,host",
        ] {
            assert!(guarded.are_named_in(value.as_bytes()), "{value}");
        }
        assert!(guarded.are_named_in(b"cookie\xff"));
    }

    #[test]
    fn what_is_between_two_neighbours_may_be_named() {
        let guarded = EndToEnd::with(["X-Tenant"]);
        for value in [
            "",
            "close",
            "keep-alive, Upgrade",
            "upgrade, HTTP2-Settings",
            "TE, Trailer, Transfer-Encoding",
            "x-secret, x-tenants, hostile, my-cookie, content, x-forwarded",
        ] {
            assert!(!guarded.are_named_in(value.as_bytes()), "{value}");
        }
        assert!(!EndToEnd::default().are_named_in(b"x-tenant"));
    }
}

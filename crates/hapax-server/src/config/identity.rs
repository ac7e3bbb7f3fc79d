//! The keys that say who a caller is: `principal_headers`, `principal_cookie` and `principal`, of a route or of `[proxy]`.
//! Whether a token can be verified at all is not its business.

use axum::http::HeaderName;
use hapax::layer::Identity;

/// The word for the subject of a bearer JWT that was verified.
pub(crate) const JWT_SUBJECT: &str = "jwt:sub";

/// The three keys as they are written; empty where one is left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    pub(super) headers: &'a [String],
    pub(super) cookie: &'a str,
    pub(super) principal: &'a str,
}

/// The key that cannot be followed, and why.
pub(super) type Refused = (&'static str, String);

impl Caller<'_> {
    /// Who a caller is by these keys, if one of them says it.
    pub(super) fn identity(self) -> Result<Option<Identity>, Refused> {
        let set: Vec<&str> = [
            ("principal_headers", self.headers.is_empty()),
            ("principal_cookie", self.cookie.is_empty()),
            ("principal", self.principal.is_empty()),
        ]
        .into_iter()
        .filter_map(|(key, is_empty)| (!is_empty).then_some(key))
        .collect();
        match set[..] {
            [] => Ok(None),
            ["principal_headers"] => self.headers().map(Some),
            ["principal_cookie"] => Identity::cookie(self.cookie)
                .map(Some)
                .map_err(|why| ("principal_cookie", why.to_string())),
            ["principal"] if self.principal == JWT_SUBJECT => Ok(Some(Identity::verified())),
            ["principal"] => Err((
                "principal",
                format!("is {:?}; it takes \"{JWT_SUBJECT}\"", self.principal),
            )),
            [first, ..] => Err((
                "principal",
                format!(
                    "is said twice, by {}; keep {first} or another, not both",
                    set.join(" and ")
                ),
            )),
        }
    }

    fn headers(self) -> Result<Identity, Refused> {
        let names = self.headers.iter().map(|name| {
            let parsed: Result<HeaderName, _> = name.parse();
            parsed.map_err(|_| {
                (
                    "principal_headers",
                    format!("holds {name:?}, no header's name"),
                )
            })
        });
        let names: Vec<HeaderName> = names.collect::<Result<_, _>>()?;
        Identity::headers(names).map_err(|why| ("principal_headers", why.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(
        headers: &[&str],
        cookie: &str,
        principal: &str,
    ) -> Result<Option<Identity>, Refused> {
        let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
        let keys = Caller {
            headers: &headers,
            cookie,
            principal,
        };
        keys.identity()
    }

    #[test]
    fn exactly_one_key_says_who_a_caller_is() {
        assert_eq!(identity(&[], "", ""), Ok(None));
        let by_header = Identity::headers([HeaderName::from_static("x-user")]).unwrap();
        assert_eq!(identity(&["X-User"], "", ""), Ok(Some(by_header)));
        let by_cookie = Identity::cookie("sid").unwrap();
        assert_eq!(identity(&[], "sid", ""), Ok(Some(by_cookie)));
        assert_eq!(identity(&[], "", "jwt:sub"), Ok(Some(Identity::verified())));
        for (headers, cookie, principal) in [
            (&["x-user"][..], "sid", ""),
            (&["x-user"], "", "jwt:sub"),
            (&[], "sid", "jwt:sub"),
            (&["x-user"], "sid", "jwt:sub"),
        ] {
            let (key, why) = identity(headers, cookie, principal).unwrap_err();
            assert!(key == "principal" && why.contains("twice"), "{why}");
        }
    }

    #[test]
    fn what_names_nobody_is_refused_by_its_key() {
        for (headers, cookie, principal, expected) in [
            (&["a b"][..], "", "", "principal_headers"),
            (&[""], "", "", "principal_headers"),
            (&["cookie"], "", "", "principal_headers"),
            (&[], "a;b", "", "principal_cookie"),
            (&[], "", "jwt:email", "principal"),
            (&[], "", "sub", "principal"),
        ] {
            let (key, _) = identity(headers, cookie, principal).unwrap_err();
            assert_eq!(key, expected);
        }
    }
}

//! The route table of the config file, made into the layer's routes.
//! What a route does with a request is not its business.

mod entry;

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use axum::http::StatusCode;
use hapax::layer::{Route, Routes};
use hapax_core::OnLost;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::exit::Usage;
use entry::Entry;

/// The most entries of a table.
const ROUTES_MAX: usize = 1000;

/// The TTLs of seed 004 where no table is given; everything else is kept for an hour.
const SEED_TTL_SECONDS: [(&str, u64); 7] = [
    ("*:bookings-hold", 30 * 60),
    ("*:estimates-draft", 24 * 3600),
    ("*:payments-link", 7 * 24 * 3600),
    ("*:customers", 3600),
    ("*:customers-*", 3600),
    ("*:jobs", 4 * 3600),
    ("*:jobs-*", 4 * 3600),
];

/// Whose habits the answers follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Profile {
    /// Seed 004: a mismatch is a 409, refusals have the plain envelope, TTLs by route.
    Thorbis,
    /// The IETF draft: a mismatch is a 422, refusals are problem+json.
    Ietf,
}

impl Config {
    /// The routes that the configuration names, where `on_lost` holds for those that do not say.
    ///
    /// # Errors
    /// [`Usage`] with the route and the key that cannot be followed. A loaded configuration has none.
    pub(crate) fn routes(&self, on_lost: OnLost) -> Result<Routes> {
        let usual = self.usual_route(on_lost);
        if self.routes.is_empty() {
            return self.without_table(&usual);
        }
        if self.routes.len() > ROUTES_MAX {
            return Err(Usage::error(format!(
                "routes has {} entries; at most {ROUTES_MAX} are taken",
                self.routes.len()
            )));
        }
        let mut seen = HashSet::new();
        let mut routes = Routes::table();
        for (at, table) in self.routes.iter().enumerate() {
            let entry = Entry::read(at, table)?;
            if !seen.insert(entry.pattern.clone()) {
                return Err(entry.refuse("pattern", "is there twice; keep one"));
            }
            let route = entry.route(&usual)?;
            routes = routes
                .with(&entry.pattern, route)
                .map_err(|why| Usage::error(format!("routes[{at}]: pattern: {why}")))?;
        }
        Ok(routes)
    }

    /// The route of a request that no pattern matches, where it is keyed all the same: a remote claim.
    pub(crate) fn usual_route(&self, on_lost: OnLost) -> Route {
        let is_ietf = self.profile == Profile::Ietf;
        let mut route = Route::default().on_lost(on_lost);
        route.strict_keys = self.strict_keys;
        if is_ietf {
            route.mismatch_status = StatusCode::UNPROCESSABLE_ENTITY;
            route.problem_json = true;
        }
        route
    }

    fn without_table(&self, usual: &Route) -> Result<Routes> {
        match self.profile {
            Profile::Ietf => Ok(Routes::any(usual.clone())),
            Profile::Thorbis => {
                let mut routes = Routes::any(usual.clone());
                for (pattern, seconds) in SEED_TTL_SECONDS {
                    let route = usual.clone().ttl(Duration::from_secs(seconds));
                    routes = routes.with(pattern, route)?;
                }
                Ok(routes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Policy;
    use hapax_core::canonical::Selection;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        let refused = config(text).routes(OnLost::Retry).unwrap_err();
        assert!(refused.is::<Usage>());
        refused.to_string()
    }

    #[test]
    fn without_a_table_the_seeds_ttls_apply_and_everything_is_keyed() {
        let routes = Config::default().routes(OnLost::Retry).unwrap();
        for (route, seconds) in [
            ("POST:bookings-hold", 1800),
            ("POST:estimates-draft", 86_400),
            ("POST:payments-link", 604_800),
            ("PUT:customers-{id}", 3600),
            ("PUT:jobs-{id}", 14_400),
            ("PATCH:jobs", 14_400),
            ("POST:jobsites", 3600),
            ("POST:anything", 3600),
        ] {
            let found = routes.find(route).unwrap();
            assert_eq!(found.policy.ttl, Duration::from_secs(seconds), "{route}");
            assert_eq!(found.mismatch_status, StatusCode::CONFLICT);
            assert!(!found.required && !found.problem_json);
        }
    }

    #[test]
    fn the_ietf_profile_answers_422_and_problem_json() {
        let routes = config("profile = 'ietf'\nstrict_keys = true")
            .routes(OnLost::Retry)
            .unwrap();
        let found = routes.find("POST:bookings-hold").unwrap();
        assert_eq!(found.mismatch_status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(found.problem_json && found.strict_keys);
        assert_eq!(found.policy.ttl, Duration::from_secs(3600));
    }

    #[test]
    fn every_option_of_a_route_arrives() {
        let text = r#"
            [[routes]]
            pattern = "PUT:customers-*"
            required = true
            derive = true
            ttl_seconds = 60
            lease_seconds = 5
            wait_ms = 250
            on_lost = "hold"
            mismatch_status = 422
            exclude = ["nonce"]
            unordered = ["tags"]
            redact = ["customer.phone"]
            store_headers = ["X-Cost"]
            store_statuses = ["2xx", 404]
            max_body_bytes = 10
            max_response_bytes = 20
            subject = "/customer/id"
            [[routes]]
            pattern = "PUT:customers-{id}-notes"
        "#;
        let routes = config(text).routes(OnLost::Retry).unwrap();
        let route = routes.find("PUT:customers-{id}").unwrap();
        assert!(route.required && route.derive);
        let policy = Policy {
            ttl: Duration::from_secs(60),
            lease: Duration::from_secs(5),
            wait: Duration::from_millis(250),
            on_lost: OnLost::Hold,
        };
        assert_eq!(route.policy, policy);
        assert_eq!(route.mismatch_status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(
            route.selection,
            Selection::new(["nonce"], ["tags"]).unwrap()
        );
        assert_eq!(route.redact[0].to_string(), "customer.phone");
        assert_eq!(route.store_headers[0], "x-cost");
        assert!(route.store_statuses.holds(StatusCode::NOT_FOUND));
        assert!(!route.store_statuses.holds(StatusCode::CONFLICT));
        assert_eq!((route.max_body_bytes, route.max_response_bytes), (10, 20));
        assert_eq!(route.subject.as_deref(), Some("/customer/id"));
        let longest = routes.find("PUT:customers-{id}-notes").unwrap();
        assert!(!longest.required, "the longest pattern wins");
        assert!(routes.find("POST:orders").is_none(), "not in the table");
    }

    #[test]
    fn what_a_route_does_not_say_is_the_callers_default() {
        let routes = config("[[routes]]\npattern = '*:*'").routes(OnLost::Hold);
        let found = routes.unwrap().find("POST:a").unwrap().clone();
        assert_eq!(found.policy.on_lost, OnLost::Hold);
    }

    #[test]
    fn a_value_that_cannot_be_followed_is_refused_with_its_route_and_its_key() {
        for (line, key) in [
            ("ttl_seconds = 0", "ttl_seconds"),
            ("ttl_seconds = -1", "ttl_seconds"),
            ("ttl_seconds = 'x'", "ttl_seconds"),
            ("ttl_seconds = 999999999999", "ttl_seconds"),
            ("lease_seconds = 86401", "lease_seconds"),
            ("wait_ms = 300001", "wait_ms"),
            ("on_lost = 'maybe'", "on_lost"),
            ("mismatch_status = 400", "mismatch_status"),
            ("exclude = ['']", "exclude"),
            ("unordered = ['a..b']", "unordered"),
            ("redact = ['a[']", "redact"),
            ("store_headers = ['a b']", "store_headers"),
            ("store_headers = ['Set-Cookie']", "store_headers"),
            ("store_statuses = ['6xx']", "store_statuses"),
            ("store_statuses = [99]", "store_statuses"),
            ("max_body_bytes = 0", "max_body_bytes"),
            ("max_response_bytes = 99999999999", "max_response_bytes"),
            ("subject = 'customer.id'", "subject"),
            ("required = 'yes'", "required"),
            ("lease = 5", "lease"),
        ] {
            let why = refusal(&format!("[[routes]]\npattern = 'PUT:a'\n{line}"));
            assert!(why.contains("PUT:a") && why.contains(key), "{line}: {why}");
        }
        assert!(refusal("[[routes]]\nrequired = true").contains("routes[0]"));
        assert!(refusal("[[routes]]\npattern = 'GET:a'").contains("GET:a"));
        let twice = "[[routes]]\npattern = 'PUT:a'\n[[routes]]\npattern = 'PUT:a'";
        assert!(refusal(twice).contains("twice"));
    }
}

//! The route table of the config file, made into the layer's routes.
//! What a route does with a request is not its business.

mod entry;
mod ruling;
mod seed;

use std::collections::HashSet;

use anyhow::Result;
use axum::http::StatusCode;
use hapax::layer::{Route, Routes, pattern_named};
use hapax_core::OnLost;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::exit::Usage;
use entry::Entry;
pub(crate) use ruling::{Ruling, Source};
pub(crate) use seed::UsualRoute;
use seed::{Ranked, rows};

/// The most entries of a table.
const ROUTES_MAX: usize = 1000;

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
            return Ok(usual.everywhere());
        }
        if self.routes.len() > ROUTES_MAX {
            return Err(Usage::error(format!(
                "routes has {} entries; at most {ROUTES_MAX} are taken",
                self.routes.len()
            )));
        }
        let mut seen = HashSet::new();
        let mut routes = Routes::table();
        let mut ranked = Vec::with_capacity(self.routes.len());
        for (at, table) in self.routes.iter().enumerate() {
            let entry = Entry::read(at, table)?;
            let invalid = |why| Usage::error(format!("routes[{at}]: pattern: {why}"));
            let pattern = pattern_named(&entry.pattern).map_err(invalid)?;
            if !seen.insert(pattern.clone()) {
                let why = format!("is there twice, as '{pattern}'; keep one");
                return Err(entry.refuse("pattern", why));
            }
            let route = entry.route(usual.at(&pattern))?;
            let sets_ttl = entry.ttl_seconds.is_some();
            ranked.push(Ranked::new(&pattern, route.clone(), sets_ttl).map_err(invalid)?);
            routes = routes.with(&pattern, route).map_err(invalid)?;
        }
        for (pattern, route) in rows(ranked, &usual) {
            routes = routes.with(&pattern, route)?;
        }
        Ok(routes)
    }

    /// The route of a request that no pattern matches, where it is keyed all the same: a remote claim.
    pub(crate) fn usual_route(&self, on_lost: OnLost) -> UsualRoute {
        let mut route = Route::default().on_lost(on_lost);
        route.strict_keys = self.strict_keys;
        match self.profile {
            Profile::Thorbis => UsualRoute::seeded(route),
            Profile::Ietf => {
                route.mismatch_status = StatusCode::UNPROCESSABLE_ENTITY;
                route.problem_json = true;
                UsualRoute::new(route)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Policy;
    use hapax_core::canonical::Selection;
    use std::time::Duration;

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
            on_status_hold = [502, "504"]
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
        assert!(route.on_status_hold.holds(StatusCode::BAD_GATEWAY));
        assert!(route.on_status_hold.holds(StatusCode::GATEWAY_TIMEOUT));
        assert!(!route.on_status_hold.holds(StatusCode::SERVICE_UNAVAILABLE));
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

    /// The seconds and the wait in ms of a route, if it is keyed.
    fn kept(routes: &Routes, route: &str) -> Option<(u64, u128)> {
        let policy = routes.find(route)?.policy;
        Some((policy.ttl.as_secs(), policy.wait.as_millis()))
    }

    #[test]
    fn an_entry_without_a_ttl_takes_the_seeds() {
        let text = r#"
            [[routes]]
            pattern = "*:*"
            wait_ms = 1
            [[routes]]
            pattern = "POST:*"
            wait_ms = 2
            [[routes]]
            pattern = "POST:payments-link"
            wait_ms = 3
            [[routes]]
            pattern = "PUT:jobs-*"
            wait_ms = 4
            [[routes]]
            pattern = "*:bookings-*"
            wait_ms = 5
            [[routes]]
            pattern = "PATCH:*"
            wait_ms = 6
            ttl_seconds = 60
        "#;
        let routes = config(text).routes(OnLost::Retry).unwrap();
        for (route, expected) in [
            ("POST:anything", (3600, 2)),
            ("POST:estimates-draft", (86_400, 2)),
            ("PUT:estimates-draft", (86_400, 1)),
            ("POST:payments-link", (604_800, 3)),
            ("PUT:payments-link", (604_800, 1)),
            ("PUT:jobs-{id}", (14_400, 4)),
            ("POST:jobs-{id}", (14_400, 2)),
            ("DELETE:jobs-{id}", (14_400, 1)),
            ("DELETE:jobs", (14_400, 1)),
            ("POST:bookings-hold", (1800, 5)),
            ("PUT:bookings-move", (3600, 5)),
            ("PATCH:jobs-{id}", (60, 6)),
            ("PATCH:estimates-draft", (60, 6)),
        ] {
            assert_eq!(kept(&routes, route), Some(expected), "{route}");
        }
    }

    #[test]
    fn the_seeds_ttls_never_change_whose_options_apply() {
        let text = r#"
            [[routes]]
            pattern = "*:*"
            wait_ms = 1
            [[routes]]
            pattern = "PUT:*-x"
            wait_ms = 2
            [[routes]]
            pattern = "*:jobs-a"
            wait_ms = 3
            [[routes]]
            pattern = "DELETE:*"
            wait_ms = 4
        "#;
        let routes = config(text).routes(OnLost::Retry).unwrap();
        for (route, wait) in [
            ("PUT:jobs-1-x", 2),
            ("PUT:jobs-{id}", 1),
            ("POST:jobs-{id}", 1),
            ("POST:jobs-a", 3),
            ("DELETE:jobs-a", 3),
            ("DELETE:jobs-{id}", 4),
            ("DELETE:bookings-hold", 4),
        ] {
            assert_eq!(kept(&routes, route).unwrap().1, wait, "{route}");
        }
    }

    #[test]
    fn what_no_entry_matches_is_not_keyed_but_a_claim_on_it_has_the_seeds_ttl() {
        let thorbis = config("[[routes]]\npattern = 'POST:other'");
        let routes = thorbis.routes(OnLost::Retry).unwrap();
        assert!(routes.find("POST:bookings-hold").is_none());
        let ttl = |config: &Config, route| config.usual_route(OnLost::Retry).at(route).policy.ttl;
        assert_eq!(ttl(&thorbis, "POST:bookings-hold").as_secs(), 1800);
        assert_eq!(ttl(&thorbis, "POST:anything").as_secs(), 3600);
        let ietf = config("profile = 'ietf'\n[[routes]]\npattern = '*:*'");
        assert_eq!(ttl(&ietf, "POST:bookings-hold").as_secs(), 3600);
        let routes = ietf.routes(OnLost::Retry).unwrap();
        assert_eq!(kept(&routes, "POST:bookings-hold"), Some((3600, 0)));
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
            ("on_status_hold = [200]", "on_status_hold"),
            ("on_status_hold = ['2xx']", "on_status_hold"),
            ("on_status_hold = [502, 401]", "on_status_hold"),
            ("on_status_hold = ['no']", "on_status_hold"),
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

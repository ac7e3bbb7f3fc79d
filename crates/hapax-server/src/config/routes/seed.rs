//! The TTLs of seed 004, for whatever the table leaves without one. Every other option is the table's business.

use std::ops::Deref;
use std::time::Duration;

use hapax::layer::{InvalidRoute, Route, Routes};
use hapax_core::Space;

/// How long answers are kept; everything else is kept for an hour. A star is only ever the last byte.
const TTL_SECONDS: [(&str, u64); 7] = [
    ("bookings-hold", 30 * 60),
    ("estimates-draft", 24 * 3600),
    ("payments-link", 7 * 24 * 3600),
    ("customers", 3600),
    ("customers-*", 3600),
    ("jobs", 4 * 3600),
    ("jobs-*", 4 * 3600),
];

const METHODS: [&str; 5] = ["*", "POST", "PUT", "PATCH", "DELETE"];

/// The route of a request that no entry matches: the same options for all, the TTL by its path.
#[derive(Debug)]
pub(crate) struct UsualRoute {
    otherwise: Route,
    seeded: Routes,
}

impl UsualRoute {
    /// `route` for every request, with its own TTL.
    pub(super) fn new(route: Route) -> Self {
        Self {
            otherwise: route,
            seeded: Routes::table(),
        }
    }

    /// `route` for every request, with the seed's TTLs.
    pub(super) fn seeded(route: Route) -> Self {
        let seeded = TTL_SECONDS
            .iter()
            .fold(Routes::table(), |routes, (path, seconds)| {
                let route = route.clone().ttl(Duration::from_secs(*seconds));
                routes
                    .with(&format!("*:{path}"), route)
                    .expect("the seed's patterns are valid")
            });
        Self {
            otherwise: route,
            seeded,
        }
    }

    /// The route that applies to `space`.
    pub(crate) fn of(&self, space: &Space) -> &Route {
        self.at(space.as_str())
    }

    /// The same for a route pattern, or for all that a pattern of the table matches.
    pub(super) fn at(&self, pattern: &str) -> &Route {
        self.seeded.find(pattern).unwrap_or(&self.otherwise)
    }

    /// The pattern of the seed's table that gives `route_pattern` its TTL, if one does.
    pub(super) fn seeded_by(&self, route_pattern: &str) -> Option<String> {
        self.seeded.pattern_of(route_pattern).map(str::to_owned)
    }

    /// The routes of a configuration without a table.
    pub(super) fn everywhere(&self) -> Routes {
        let mut routes = Routes::any(self.otherwise.clone());
        for (path, _) in TTL_SECONDS {
            let pattern = format!("*:{path}");
            routes = routes
                .with(&pattern, self.at(&pattern).clone())
                .expect("the seed's patterns are valid");
        }
        routes
    }
}

/// Where the path does not matter: all options but the TTL.
impl Deref for UsualRoute {
    type Target = Route;

    fn deref(&self) -> &Route {
        &self.otherwise
    }
}

/// An entry as it ranks among the others.
pub(super) struct Ranked {
    pattern: String,
    route: Route,
    sets_ttl: bool,
    /// The entry alone, to ask what it matches.
    alone: Routes,
}

impl Ranked {
    /// # Errors
    /// [`InvalidRoute`] when the pattern is not `METHOD:path`.
    pub(super) fn new(pattern: &str, route: Route, sets_ttl: bool) -> Result<Self, InvalidRoute> {
        Ok(Self {
            pattern: pattern.to_owned(),
            alone: Routes::table().with(pattern, route.clone())?,
            route,
            sets_ttl,
        })
    }

    fn covers(&self, method: &str, path: &str) -> bool {
        self.alone.find(&format!("{method}:{path}")).is_some()
    }

    /// Whether some request may belong to both. It may say yes where none does, never no where one does.
    fn meets(&self, method: &str, path: &str) -> bool {
        let (its_method, its_path) = self.pattern.split_once(':').unwrap_or_default();
        if its_method != method && its_method != "*" && method != "*" {
            return false;
        }
        let Some(start) = path.strip_suffix('*') else {
            return self.covers(its_method, path);
        };
        match its_path.split_once('*') {
            None => its_path.starts_with(start),
            Some((head, _)) => head.starts_with(start) || start.starts_with(head),
        }
    }
}

/// The rows that give entries without a TTL the seed's, to be added behind the entries themselves.
///
/// Invariant: a row never changes which entry's options a request gets. Where a row would outrank an entry
/// that matches a part of it, there is none.
pub(super) fn rows(mut entries: Vec<Ranked>, usual: &UsualRoute) -> Vec<(String, Route)> {
    // As `Routes` ranks them: the longest first, then the one that was added first.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.pattern.len()));
    let candidates = TTL_SECONDS
        .iter()
        .flat_map(|(path, _)| METHODS.map(|method| (method, *path)));
    candidates
        .filter_map(|(method, path)| row(&entries, method, path, usual))
        .collect()
}

fn row(
    entries: &[Ranked],
    method: &str,
    path: &str,
    usual: &UsualRoute,
) -> Option<(String, Route)> {
    let pattern = format!("{method}:{path}");
    let rank = entries
        .iter()
        .position(|entry| entry.covers(method, path))?;
    let (above, entry) = (&entries[..rank], &entries[rank]);
    let outranked = |other: &Ranked| other.pattern.len() < pattern.len();
    let ttl = usual.at(&pattern).policy.ttl;
    let needed = !entry.sets_ttl && outranked(entry) && entry.route.policy.ttl != ttl;
    let hides = above
        .iter()
        .any(|other| outranked(other) && other.meets(method, path));
    (needed && !hides).then(|| (pattern, entry.route.clone().ttl(ttl)))
}

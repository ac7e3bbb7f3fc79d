//! Which entry of the route table rules a request, and where its TTL comes from. It changes nothing.

use anyhow::Result;
use hapax::layer::{Route, Routes, is_keyed, pattern_meant, pattern_named, route_pattern};
use hapax_core::{OnLost, Space};
use http::Method;
use toml::Value;

use super::super::Config;
use super::entry::Entry;
use super::seed::UsualRoute;

/// What the configuration says of one method and path.
#[derive(Debug)]
pub(crate) struct Ruling {
    pub(crate) space: Space,
    /// What applies to it; `None` where it passes untouched.
    pub(crate) route: Option<Route>,
    pub(crate) source: Source,
    /// Where the seed's table gives the TTL: its pattern.
    pub(crate) seeded: Option<String>,
}

/// What it is ruled by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The method changes nothing.
    Method,
    /// There is no table: every request with a key is keyed.
    NoTable,
    /// This entry: its place, and its pattern as it is written.
    Entry(usize, String),
    /// There is a table, and no entry matches.
    NoEntry,
}

impl Config {
    /// What these routes say of `method` and `path`.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) as [`Config::routes`].
    pub(crate) fn ruling(&self, on_lost: OnLost, method: &Method, path: &str) -> Result<Ruling> {
        let space = route_pattern(method, path);
        let routes = self.routes(on_lost)?;
        let mut ruling = Ruling {
            route: routes.find(space.as_str()).cloned(),
            source: Source::NoTable,
            seeded: None,
            space,
        };
        if !is_keyed(method) {
            ruling.route = None;
            ruling.source = Source::Method;
            return Ok(ruling);
        }
        let usual = self.usual_route(on_lost);
        // Where an entry outranks the seed's row, the TTL is the entry's.
        let ttl = ruling.route.as_ref().map(|route| route.policy.ttl);
        let seeded = usual
            .seeded_by(ruling.space.as_str())
            .filter(|_| ttl == Some(usual.of(&ruling.space).policy.ttl));
        if self.routes.is_empty() {
            ruling.seeded = seeded;
            return Ok(ruling);
        }
        ruling.source = Source::NoEntry;
        if let Some((at, entry)) = self.entry_of(&ruling.space, &usual)? {
            ruling.seeded = seeded.filter(|_| entry.ttl_seconds.is_none());
            ruling.source = Source::Entry(at, entry.pattern);
        }
        Ok(ruling)
    }

    /// The entry that rules `space`, with its place.
    fn entry_of(&self, space: &Space, usual: &UsualRoute) -> Result<Option<(usize, Entry)>> {
        let mut table = Routes::table();
        let mut entries = Vec::with_capacity(self.routes.len());
        for (at, written) in self.routes.iter().enumerate() {
            let entry = Entry::read(at, written)?;
            let pattern = pattern_named(&entry.pattern)?;
            table = table.with(&pattern, Route::clone(usual))?;
            entries.push((pattern, at, entry));
        }
        let Some(found) = table.pattern_of(space.as_str()) else {
            return Ok(None);
        };
        let entry = entries.into_iter().find(|(pattern, ..)| pattern == found);
        Ok(entry.map(|(_, at, entry)| (at, entry)))
    }

    /// Patterns that match only paths with dashes where slashes may be meant: each with the one that may be meant.
    pub(crate) fn doubtful_patterns(&self) -> Vec<(String, String)> {
        let written = self
            .routes
            .iter()
            .filter_map(|entry| entry.get("pattern").and_then(Value::as_str));
        written
            .filter_map(|pattern| {
                Some((
                    pattern.to_owned(),
                    pattern_meant(&pattern_named(pattern).ok()?)?,
                ))
            })
            .collect()
    }
}

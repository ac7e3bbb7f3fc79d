//! `hapax routes test`: which entry of the route table rules a request, and what follows. It opens no store and sends nothing.

use std::path::PathBuf;

use anyhow::Result;
use hapax::layer::Route;
use hapax_core::OnLost;
use serde_json::{Value, json};

use crate::cli::{Routes, RoutesTest};
use crate::config::{Config, Ruling, Source};
use crate::exit::Usage;
use crate::out::{self, plain};

pub(super) fn run(args: &Routes) -> Result<()> {
    let Routes::Test(args) = args;
    test(args)
}

fn test(args: &RoutesTest) -> Result<()> {
    let flags = args.plain.store.flags();
    let config = Config::load(&flags)?;
    let method = args.method.to_ascii_uppercase();
    let method = method
        .parse()
        .map_err(|_| Usage::error(format!("{:?} is no HTTP method", args.method)))?;
    let path = args.path.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        let path = &args.path;
        return Err(Usage::error(format!(
            "{path:?} is no path; begin it with a slash, as in /api/v1/payments/link"
        )));
    }
    let ruling = config.ruling(OnLost::Retry, &method, path)?;
    // What an entry does not say is another word behind a proxy.
    let proxied = config.ruling(OnLost::Hold, &method, path)?;
    let report = Report {
        line: line_of(flags.config, &ruling.source),
        on_lost_proxy: proxied.route.as_ref().map(|route| route.policy.on_lost),
        ruling,
    };
    if args.plain.json {
        out::json(&report.json())
    } else {
        let facts = report.rows();
        let rows: Vec<_> = facts
            .iter()
            .map(|(name, value)| vec![plain(name), plain(value)])
            .collect();
        out::table(&["", ""], &rows)
    }
}

/// What is known of the request.
struct Report {
    ruling: Ruling,
    /// Where the entry's pattern stands in the config file.
    line: Option<(String, usize)>,
    on_lost_proxy: Option<OnLost>,
}

impl Report {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let Ruling { space, route, .. } = &self.ruling;
        let mut rows = vec![("pattern", space.to_string())];
        match route {
            None => rows.push(("key", "none: the request passes untouched".to_owned())),
            Some(route) => {
                let policy = route.policy;
                rows.push(("key", format!("{}: {}", rule(route), rule_meaning(route))));
                rows.push(("ttl", format!("{} s", policy.ttl.as_secs())));
                rows.push(("wait", format!("{} ms", policy.wait.as_millis())));
                rows.push(("on_lost", self.on_lost()));
                let holding = route.on_status_hold.words();
                if !holding.is_empty() {
                    let meaning = "such an answer leaves the key in doubt";
                    rows.push((
                        "on_status_hold",
                        format!("{}: {meaning}", holding.join(", ")),
                    ));
                }
            }
        }
        rows.push(("why", self.why()));
        rows
    }

    fn json(&self) -> Value {
        let Ruling { space, route, .. } = &self.ruling;
        let entry = match &self.ruling.source {
            Source::Entry(at, pattern) => json!({
                "index": at,
                "pattern": pattern,
                "file": self.line.as_ref().map(|(file, _)| file),
                "line": self.line.as_ref().map(|(_, line)| line),
            }),
            Source::Method | Source::NoTable | Source::NoEntry => Value::Null,
        };
        let policy = route.as_ref().map(|route| route.policy);
        json!({
            "pattern": space.as_str(),
            "keyed": route.is_some(),
            "key": route.as_ref().map_or("none", rule),
            "ttl_seconds": policy.map(|policy| policy.ttl.as_secs()),
            "lease_seconds": policy.map(|policy| policy.lease.as_secs()),
            "wait_ms": policy.map(|policy| policy.wait.as_millis()),
            "on_lost": policy.map(|policy| policy.on_lost.as_str()),
            "on_lost_proxy": self.on_lost_proxy.map(OnLost::as_str),
            "on_status_hold": route.as_ref().map(|route| route.on_status_hold.words()),
            "entry": entry,
            "why": self.why(),
        })
    }

    fn on_lost(&self) -> String {
        let here = self.ruling.route.as_ref().map(|route| route.policy.on_lost);
        match (here, self.on_lost_proxy) {
            (Some(here), Some(proxy)) if here != proxy => {
                let (here, proxy) = (here.as_str(), proxy.as_str());
                format!(
                    "{proxy} in hapax proxy, {here} for claims over the API; the entry does not say"
                )
            }
            (Some(here), _) => here.as_str().to_owned(),
            (None, _) => String::new(),
        }
    }

    fn why(&self) -> String {
        let mut why = match &self.ruling.source {
            Source::Method => "only POST, PUT, PATCH and DELETE are keyed".to_owned(),
            Source::NoTable => {
                "there is no route table: each request with a key is keyed, one without passes"
                    .to_owned()
            }
            Source::Entry(at, pattern) => {
                let place = match &self.line {
                    Some((file, line)) => format!("{file}:{line}"),
                    None => format!("routes[{at}]"),
                };
                format!("{place}: pattern = \"{pattern}\" is the longest that matches")
            }
            Source::NoEntry => {
                "no pattern of the route table matches; a claim over the API is keyed all the same"
                    .to_owned()
            }
        };
        if let Some(seeded) = &self.ruling.seeded {
            why.push_str("; the TTL is the usual one of ");
            why.push_str(seeded);
        }
        why
    }
}

fn rule(route: &Route) -> &'static str {
    match (route.derive, route.required) {
        (true, _) => "derived",
        (false, true) => "required",
        (false, false) => "optional",
    }
}

fn rule_meaning(route: &Route) -> &'static str {
    match rule(route) {
        "derived" => "a request without one gets a key made of its content",
        "required" => "a request without one is a 400 idempotency_key_required",
        _ => "a request without one passes untouched",
    }
}

/// The file, and the line in it that holds the pattern of the entry, where the file is written as most are.
fn line_of(config: Option<PathBuf>, source: &Source) -> Option<(String, usize)> {
    let Source::Entry(at, _) = source else {
        return None;
    };
    let file = config.or_else(|| std::env::var_os("HAPAX_CONFIG").map(PathBuf::from))?;
    let text = std::fs::read_to_string(&file).ok()?;
    let mut lines = (1..).zip(text.lines().map(str::trim_start));
    lines
        .by_ref()
        .filter(|(_, line)| line.starts_with("[[routes]]"))
        .nth(*at)?;
    let (number, _) = lines
        .take_while(|(_, line)| !line.starts_with('['))
        .find(|(_, line)| line.starts_with("pattern"))?;
    Some((file.display().to_string(), number))
}

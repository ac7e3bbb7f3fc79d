//! What the audit trail keeps of a request that was refused because its key stands for another one: where the two
//! differ, and never a value of either. The refusal itself is not made here.

use hapax_core::diff::{Kind, Options, Paths, paths};
use hapax_core::{Claim, Record};
use serde_json::{Map, Value, json};

/// The largest two bodies, together, that are compared for a note.
const COMPARED_BYTES_MAX: usize = 1 << 20;

/// The facts of a conflict: the key, both hashes, and at most 50 paths with what happened at each.
///
/// `sealed` says that requests are kept sealed. Notes are not, so only a count is told then; the same where the two
/// requests come from different principals, who learn nothing of each other.
pub(super) fn facts(record: &Record, claim: &Claim, sealed: bool) -> Value {
    let mut facts = Map::new();
    facts.insert("key".to_owned(), record.key.as_str().into());
    if !sealed {
        let (original, current) = (&record.request.content_hash, &claim.request.content_hash);
        facts.insert("original_hash".to_owned(), original.as_str().into());
        facts.insert("current_hash".to_owned(), current.as_str().into());
    }
    if let Some(found) = differing(record, claim) {
        let count = found.listed.len() + found.more;
        facts.insert("changes_count".to_owned(), count.into());
        if !sealed && record.principal == claim.principal {
            let shown = |(path, kind): (String, Kind)| json!({"path": path, "kind": kind.as_str()});
            let changes: Vec<Value> = found.listed.into_iter().map(shown).collect();
            facts.insert("changes".to_owned(), changes.into());
            facts.insert("more".to_owned(), found.more.into());
        }
    }
    Value::Object(facts)
}

/// Where the two requests differ, as far as both are at hand.
fn differing(record: &Record, claim: &Claim) -> Option<Paths> {
    let (first, second) = (&record.request, &claim.request);
    let mut found = Paths::default();
    let parts = [
        ("(method)", first.method != second.method),
        ("(path)", first.path != second.path),
        ("(content-type)", first.content_type != second.content_type),
    ];
    for (name, _) in parts.into_iter().filter(|(_, differs)| *differs) {
        found.listed.push((name.to_owned(), Kind::Changed));
    }
    let (old, new) = (first.body.as_ref()?, second.body.as_ref()?);
    if old.len() + new.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let usual = Options::default();
    let options = Options {
        selection: claim.selection.clone(),
        changes_max: usual.changes_max - found.listed.len(),
        ..usual
    };
    let body = paths(old, new, &options);
    found.listed.extend(body.listed);
    found.more = body.more;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::canonical::Selection;
    use hapax_core::{Fingerprint, Key, Owner, Principal, Request, Scope, Tenant, Time, Verdict};

    fn claim(body: &str) -> Claim {
        let scope = Scope {
            tenant: Tenant::DEFAULT,
            space: hapax_core::Space::new("POST:pay").unwrap(),
        };
        let mut claim = Claim::new(
            scope,
            Key::new("k").unwrap(),
            Fingerprint::of(body.as_bytes()),
            Owner::from_u128(1),
        );
        claim.request = std::sync::Arc::new(Request {
            method: "POST".to_owned(),
            path: "/pay".to_owned(),
            content_hash: Fingerprint::of(body.as_bytes()).short(),
            body: Some(body.to_owned().into()),
            ..Request::default()
        });
        claim
    }

    fn record(claim: &Claim) -> Record {
        match hapax_core::decide(None, claim, Time::from_ms(1)) {
            Verdict::Grant(grant) => grant.next,
            other => panic!("a new key is granted: {other:?}"),
        }
    }

    #[test]
    fn a_conflict_is_told_by_its_paths_and_without_a_value() {
        let first = claim(r#"{"pin":"4711-planted","a":{"b":"old-planted"},"at":1}"#);
        let mut second = claim(r#"{"a":{"b":"new-planted"},"card":"5500-planted","at":2}"#);
        std::sync::Arc::make_mut(&mut second.request).path = "/pay?way=planted".to_owned();
        second.selection = Selection::new(["at"], [""; 0]).unwrap();
        let told = facts(&record(&first), &second, false);
        assert_eq!(
            told["changes"],
            json!([
                {"path": "(path)", "kind": "changed"},
                {"path": "pin", "kind": "removed"},
                {"path": "a.b", "kind": "changed"},
                {"path": "card", "kind": "added"},
            ])
        );
        assert_eq!(
            (&told["changes_count"], &told["more"]),
            (&json!(4), &json!(0))
        );
        assert!(!told.to_string().contains("planted"), "{told}");
    }

    #[test]
    fn many_changes_are_counted_and_long_paths_are_cut() {
        let name = "é".repeat(300);
        let of = |from: usize| {
            let members = (0..80).map(|n| format!(r#""{n}{name}":{}"#, n + from));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        };
        let told = facts(&record(&claim(&of(0))), &claim(&of(1)), false);
        let listed = told["changes"].as_array().unwrap();
        assert_eq!((listed.len(), &told["more"]), (50, &json!(30)));
        assert_eq!(told["changes_count"], 80);
        for change in listed {
            let path = change["path"].as_str().unwrap();
            assert!(path.len() <= 200 && path.ends_with('…'), "{path}");
        }
    }

    #[test]
    fn where_requests_are_sealed_or_of_two_principals_only_a_count_is_told() {
        let (first, second) = (claim(r#"{"a":1}"#), claim(r#"{"a":2,"b":3}"#));
        let sealed = facts(&record(&first), &second, true);
        assert_eq!(sealed, json!({"key": "k", "changes_count": 2}));
        let other = Claim {
            principal: Some(Principal::of(b"somebody else")),
            ..second
        };
        let told = facts(&record(&first), &other, false);
        assert_eq!(
            (&told["changes_count"], told.get("changes")),
            (&json!(2), None)
        );
    }

    #[test]
    fn what_was_not_kept_or_is_too_large_is_told_by_its_hashes() {
        let mut first = claim(r#"{"a":1}"#);
        let large = claim(&format!(r#"{{"a":"{}"}}"#, "x".repeat(COMPARED_BYTES_MAX)));
        assert_eq!(
            facts(&record(&first), &large, false).get("changes_count"),
            None
        );
        std::sync::Arc::make_mut(&mut first.request).body = None;
        let told = facts(&record(&first), &claim(r#"{"a":2}"#), false);
        assert_eq!(told.get("changes"), None);
        assert_eq!(told["original_hash"], first.request.content_hash);
    }
}

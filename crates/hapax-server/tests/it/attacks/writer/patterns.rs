//! Texts that make a pattern of an operator's schema work for ever.

use serde_json::json;

use crate::both::{Store, on_both_stores};

/// Patterns that look harmless: which of the last thousand letters was an `a`, and names of many parts.
const CONFIG: &str = r#"
[collections.orders]
id = "/no"
schema = { properties = { code = { pattern = "^[ab]*a[ab]{2000}$" }, slow = { pattern = "^(a+)+$" }, not = { not = { pattern = "^[ab]*a[ab]{2000}$" } } }, patternProperties = { "^x[ab]*a[ab]{2000}$" = {} } }
"#;

on_both_stores!(a_text_that_keeps_a_pattern_busy_is_refused_and_says_why);

/// Letters without a pattern of their own, the same in every run.
fn letters(count: usize) -> String {
    let mut state = 7_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state.is_multiple_of(2) { 'a' } else { 'b' }
    };
    (0..count).map(|_| letter()).collect()
}

fn a_text_that_keeps_a_pattern_busy_is_refused_and_says_why(store: Store) {
    let node = store.serve(CONFIG);
    let long = letters(900_000);
    let name = format!("x{long}");
    for hostile in [
        json!({"no": 1, "code": long}),
        json!({"no": 1, "not": long}),
        json!({"no": 1, name: true}),
    ] {
        let answer = node.owner("POST", "/v1/orders/ingest", &hostile.to_string());
        let refused = (400, "schema_validation_failed".to_owned());
        assert_eq!(answer.refusal(), refused);
        let errors = answer.json()["error"]["details"]["errors"].clone();
        let said = errors[0]["message"].as_str().unwrap().to_owned();
        assert!(said.contains("steps"), "{said}");
        assert_eq!(errors.as_array().unwrap().len(), 1, "{errors}");
    }
    // The classical one ends at once, and is judged.
    let slow = json!({"no": 1, "slow": format!("{}!", "a".repeat(900_000))});
    let answer = node.owner("POST", "/v1/orders/ingest", &slow.to_string());
    assert_eq!(
        answer.refusal(),
        (400, "schema_validation_failed".to_owned())
    );
    assert!(!answer.text().contains("steps"), "{}", answer.text());
    // A text of a usual length is judged by the very same patterns.
    let ended_by_a = format!("a{}", letters(2000));
    for (code, status) in [(ended_by_a.as_str(), 200), ("ab", 400)] {
        let good = json!({"no": 2, "code": code, "slow": "aaa", "not": "ab"});
        let answer = node.owner("POST", "/v1/orders/ingest", &good.to_string());
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

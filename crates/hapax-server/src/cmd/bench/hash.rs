//! The canonical hash of a document of common size.

use std::time::{Duration, Instant};

use hapax_core::canonical::{self, Profile};

use super::{Found, rate};

pub(super) fn measure(time: Duration) -> Found {
    let document = document();
    let begun = Instant::now();
    let mut bytes = 0;
    while begun.elapsed() < time {
        let hash = canonical::hash(&document, Profile::default());
        std::hint::black_box(hash.expect("the document is valid"));
        bytes += document.len();
    }
    Found {
        what: "canonical hash, 100 KB",
        at_once: 0,
        rate: rate(bytes, begun) / 1e6,
        unit: "MB",
        took_us: None,
    }
}

/// About 100 KB of orders.
fn document() -> Vec<u8> {
    let order = |n: usize| {
        format!(
            r#"{{"number":{n},"customer":"cus_{n:06}","lines":[{{"sku":"A-{n}","count":2,"price":19.95}}],"note":"leave it at the door","paid":true}}"#
        )
    };
    let orders: Vec<String> = (0..800).map(order).collect();
    format!("[{}]", orders.join(",")).into_bytes()
}

//! Targets: for each parser one function that takes any bytes and panics if a promise is broken. It answers what kind of
//! thing happened, so that inputs which lead to something new are kept and changed further.
//!
//! ```
//! let target = hapax_fuzz::target("canonical").expect("it is on the list");
//! let new = (target.run)(b"{\"b\":1,\"a\":2}");
//! assert_ne!(new, (target.run)(b"{"), "a refusal is another kind of thing");
//! ```

pub mod corpus;
mod framing;
pub mod mutate;
mod targets;

/// One parser and its promises.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Panics if a promise is broken; answers what kind of thing happened.
    pub run: fn(&[u8]) -> u64,
}

/// Every target.
pub const TARGETS: [Target; 10] = [
    Target {
        name: "canonical",
        run: targets::canonical,
    },
    Target {
        name: "key",
        run: targets::key,
    },
    Target {
        name: "url",
        run: targets::url,
    },
    Target {
        name: "subject",
        run: targets::subject,
    },
    Target {
        name: "date",
        run: targets::date,
    },
    Target {
        name: "mbox",
        run: targets::mbox,
    },
    Target {
        name: "mime",
        run: targets::mime,
    },
    Target {
        name: "framing",
        run: framing::run,
    },
    Target {
        name: "diff",
        run: targets::diff,
    },
    Target {
        name: "batch_lines",
        run: targets::batch_lines,
    },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

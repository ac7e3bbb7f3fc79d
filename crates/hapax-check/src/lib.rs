//! The history checker: it is told what clients asked, what they were answered and what was done to the world, and says
//! which promise that breaks. It knows no store and no server, and believes neither.
//!
//! ```
//! use hapax_check::{Act, Cause, History, Rules, Told};
//!
//! let mut history = History::new(Rules::default());
//! let key = history.key("tenant", "order-7");
//! let claim = history.invoke(1, key, Act::Claim { asked: 1 });
//! history.ok(claim, Told::Granted { fence: 1, cause: Cause::New, expires_at: None });
//! history.effect(key, 1);
//! let settle = history.invoke(1, key, Act::Settle { fence: 1, body: b"done".to_vec() });
//! history.ok(settle, Told::Recorded { body: b"done".to_vec(), expires_at: None });
//! assert!(history.violations().is_empty());
//!
//! // The refusal: a second client is let in although it is done.
//! let claim = history.invoke(2, key, Act::Claim { asked: 1 });
//! history.ok(claim, Told::Granted { fence: 2, cause: Cause::New, expires_at: None });
//! assert!(history.violations()[0].to_string().contains("granted again"));
//! ```

mod dice;
pub mod disk;
mod event;
mod history;
mod life;
mod linear;

pub use dice::Dice;
pub use event::{Act, Body, Cause, Told, Violation};
pub use history::{Counts, History, KeyId, OpId, Rules};
pub use linear::{Linear, Span, is_linear};

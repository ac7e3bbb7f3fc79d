//! Intents: what somebody wants done, read from a packet and turned into a plan.
//!
//! [`Packet::read`] checks the text and keys it. [`plan()`] decides what to do about it: actions for the gateway, a
//! question, or a rejection. [`Packet::answered`] fills in the answer to a question, so that planning goes on.
//!
//! ```
//! use hapax_core::{Tenant, Time};
//! use hapax_intake::intent::{Answer, Origin, Packet, Plan, Policy, plan};
//!
//! let received = Time::from_ms(1_794_787_200_000); // Monday, 2026-11-16, 00:00 UTC
//! let policy = Policy::default();
//! let packet = Packet::read(br#"{"kind":"intent","intent_type":"create_task",
//!     "fields":{"title":"Call Ada","due":"whenever it suits"}}"#)?;
//!
//! // The refusal to guess: a due date that cannot be read becomes a question.
//! let Plan::Clarify(question) = plan(&packet, &policy, received) else { panic!("it is not guessed") };
//! assert_eq!(question.field.as_str(), "/fields/due");
//!
//! // The answer continues the same packet: its key stays what it was.
//! let answered = packet.answered(&question, &Answer::Text("tomorrow".into()), &policy, received)?;
//! let Plan::Actions(actions) = plan(&answered, &policy, received) else { panic!("it can be planned now") };
//! assert_eq!(actions[0].name.path(), "/v1/notion/tasks/create");
//! assert_eq!(actions[0].payload["task"]["due"], "2026-11-17");
//! assert_eq!(answered.key(), packet.key());
//!
//! let origin = Origin::of(Tenant::DEFAULT, &packet);
//! assert!(origin.action_key(&actions[0], 0).starts_with("action:"));
//! assert_ne!(origin.action_key(&actions[0], 0), origin.action_key(&actions[0], 1), "a replay on purpose");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod answer;
pub mod ask;
pub mod due;
pub mod origin;
pub mod packet;
pub mod plan;
pub mod planner;
pub mod policy;
pub mod project;
pub mod word;
pub mod zone;

mod member;

pub use answer::{Answer, Misfit};
pub use ask::{Choice, Clarification, Field, Why};
pub use due::Due;
pub use origin::{IntentId, Origin, ReceiptId};
pub use packet::{Fields, Packet, Source, Target};
pub use plan::{Action, ActionName, Artifact, Plan, Rejection, RejectionCode};
pub use planner::plan;
pub use policy::Policy;
pub use project::{Project, Projects};
pub use word::{Word, Words};
pub use zone::Zone;

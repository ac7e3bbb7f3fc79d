//! Tier-1 enrichment: what a text is about, asked of a language model through LiteLLM.
//!
//! [`Prompt`] is what is asked, [`Llm`] asks it at once or as a line of a batch, [`Parser`] reads what was said. None
//! of them remembers anything: what is recorded, and that a call is not paid twice, is the business of the job that
//! uses them. [`request_key`] is what makes a call the same call.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use hapax_effects::enrich::testing::FakeLitellm;
//! use hapax_effects::enrich::{ChatRequest, Llm, Parser, Prompt, Rules, Text};
//!
//! let fake = FakeLitellm::start().await?;
//! let rules = Rules::default();
//! let text = Text { title: Some("Tea"), clean_text: "Tea is made of leaves and water.", ..Text::default() };
//! let request = ChatRequest::new("t1-default", &Prompt::new(&text, &rules));
//!
//! let llm = Llm::new(fake.config())?;
//! let answer = llm.chat(&request).await?;
//! let t1 = Parser::new(rules.topics).answer(&answer)?;
//! assert!(t1.keywords.len() >= 5);
//!
//! // The refusal: a provider that is not there was not asked, and may be asked again later.
//! fake.down().await?;
//! let refused = Llm::new(fake.config())?.chat(&request).await.unwrap_err();
//! assert!(refused.is_transient() && !refused.may_have_happened());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod custom_id;
mod invalid;
pub mod llm;
pub mod output;
pub mod parse;
pub mod prompt;
#[cfg(feature = "testing")]
pub mod testing;
pub mod topics;

pub use custom_id::{CustomId, Owner};
pub use invalid::Invalid;
pub use llm::{
    Batch, BatchCounts, BatchFault, BatchFile, BatchId, BatchPage, BatchStatus, ChatAnswer,
    ChatRequest, Choice, FileId, Llm, LlmConfig, LlmError, NewBatch, Retry, Secret, Usage,
};
pub use output::{BrokenLine, LineFault, Outcome, OutputLine, Settled, settle};
pub use parse::{ParseError, Parser, Reason, T1};
pub use prompt::{Message, Mode, Prompt, Rules, Text, batch_line, chat_body, request_key};
pub use topics::Topics;

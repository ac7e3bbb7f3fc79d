//! Tier-1 enrichment below its doors: three graphs of the same five steps, each a job of the kind `enrich`. What is asked
//! of a model, and how its answer is read, is `hapax_effects::enrich`; what is kept is the store's `Batches`.
//!
//! | Graph | LOAD | PROMPT | LLM | PARSE | WRITE |
//! |---|---|---|---|---|---|
//! | [`sync`] | takes the text | says what makes the call the same | asks, unless the answer is paid for | result or parse error | the answer |
//! | [`schedule`] | settles what needs no asking | says which model and how many lines | uploads and creates, or adopts | reads the provider's id | the batch is submitted |
//! | [`collect`] | reads the batch | counts what is expected | takes the provider's files in | settles what is no result | writes results, ends the batch |
//!
//! [`chore`] moves batches from one graph to the next, [`desk`] is where this process does all of it.

pub(crate) mod chore;
pub(crate) mod collect;
pub(crate) mod desk;
mod find;
pub(crate) mod job;
mod lines;
mod outputs;
mod results;
mod row;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod sync;
pub(crate) mod trouble;

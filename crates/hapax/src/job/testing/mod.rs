//! What tests of effects and plans need: a queue in memory, one that fails or dies on cue, and the checks themselves.
//! Nothing here is for production.

mod crash;
mod faulty;
mod history;
mod memory;
mod twice;

pub use crash::{Crashed, Trial, crash_after_every_step};
pub use faulty::{Cut, FaultyQueue};
pub use history::HistoryQueue;
pub use memory::MemoryQueue;
pub use twice::runs_twice_settles_once;

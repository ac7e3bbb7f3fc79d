//! Work that is done now and then, and that one process of all that share a store is enough for. Who does it is the
//! store's to say; what it is, is whoever's who does it.

/// A piece of periodic work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Chore {
    /// Removes keys whose time is over.
    Sweep,
    /// Ends leases of workers that died, and says which operations are in doubt.
    Reconcile,
    /// Moves batches for enrichment on.
    Batches,
}

impl Chore {
    /// All of them.
    pub const ALL: [Chore; 3] = [Chore::Sweep, Chore::Reconcile, Chore::Batches];

    /// Its name, for `/health` and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Chore::Sweep => "sweep",
            Chore::Reconcile => "reconcile",
            Chore::Batches => "batches",
        }
    }
}

//! How much, how long and how many: the limits of a download. Every wait and every size has one.

use std::time::Duration;

/// The limits of a download.
///
/// ```
/// use hapax_effects::download::Limits;
///
/// let limits = Limits { size_bytes_max: 1 << 20, ..Limits::default() };
/// assert_eq!(limits.redirects_max, 5);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The largest content in bytes, decoded.
    pub size_bytes_max: u64,
    /// How long one try of one step may take.
    pub try_time: Duration,
    /// How long a connection may bring nothing.
    pub idle_time: Duration,
    /// How long a connection may take to be made.
    pub connect_time: Duration,
    /// How many redirects are followed.
    pub redirects_max: usize,
    /// How many requests one host gets at a time from this process.
    pub per_host_max: usize,
    /// Whether tenants share that: then one gets at most half of it, rounded up.
    pub shared: bool,
    /// The longest Retry-After that is honoured; a longer one counts as this.
    pub retry_after_max: Duration,
    /// How long a request waits for a host that asked for rest; if the rest is longer, the try ends instead.
    pub patience: Duration,
    /// How many connections in a row may bring nothing new before the try ends.
    pub fruitless_max: u32,
    /// The rest after a connection that brought nothing; it doubles with each.
    pub rest: Duration,
    /// Content is made durable each time this many bytes have come, beside what comes meanwhile: at most four times as
    /// many may be written and not durable.
    pub sync_bytes: u64,
    /// A compressed body may be this many times as long decoded as encoded, beyond the first mebibyte.
    pub ratio_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            size_bytes_max: 10 << 30,
            try_time: Duration::from_secs(6 * 3600),
            idle_time: Duration::from_secs(30),
            connect_time: Duration::from_secs(10),
            redirects_max: 5,
            per_host_max: 4,
            shared: false,
            retry_after_max: Duration::from_secs(3600),
            patience: Duration::from_secs(60),
            fruitless_max: 4,
            rest: Duration::from_millis(250),
            sync_bytes: 32 << 20,
            ratio_max: 100,
        }
    }
}

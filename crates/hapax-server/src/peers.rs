//! How many connections each address has, so that one address cannot take them all.
//! Who asks and what for is not looked at here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::throttle::network;

/// The connections that are open, by where they come from.
#[derive(Debug)]
pub(crate) struct Peers {
    open: Mutex<HashMap<IpAddr, usize>>,
    each_max: usize,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    peers: Arc<Peers>,
    from: IpAddr,
}

impl Peers {
    pub(crate) fn new(each_max: usize) -> Self {
        Self {
            open: Mutex::default(),
            each_max,
        }
    }

    /// Counts a connection from this address, if it may have one more.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Counted> {
        let from = network(address);
        let mut open = self.locked();
        let count = open.entry(from).or_default();
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        Some(Counted {
            peers: Arc::clone(self),
            from,
        })
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Nothing panics while this is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.peers.locked();
        if let Some(count) = open.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.from);
            }
        }
    }
}

/// What a connection over the limit is told, whatever it wanted to ask.
pub(crate) fn refusal() -> Vec<u8> {
    let trace_id = uuid::Uuid::new_v4().simple();
    let body = serde_json::json!({
        "error": {
            "code": "rate_limited",
            "message": "too many connections from this address; close some, then retry",
            "details": {"reason": "connections"},
        },
        "trace_id": trace_id.to_string(),
    });
    let body = format!("{body}\n");
    let length = body.len();
    format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         retry-after: 1\r\nx-trace-id: {trace_id}\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_and_no_more_and_nothing_is_kept_of_the_gone() {
        let peers = Arc::new(Peers::new(2));
        let [here, there] = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])];
        let (first, second) = (peers.enter(here), peers.enter(here));
        assert!(first.is_some() && second.is_some() && peers.enter(here).is_none());
        assert!(peers.enter(there).is_some(), "others are not kept out");
        drop(first);
        let third = peers.enter(here);
        assert!(third.is_some());
        drop((second, third));
        assert!(peers.locked().is_empty());
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let peers = Arc::new(Peers::new(1));
        let entered = peers.enter("2001:db8::1".parse().unwrap());
        assert!(entered.is_some());
        assert!(peers.enter("2001:db8::2".parse().unwrap()).is_none());
        assert!(peers.enter("2001:db8:1::1".parse().unwrap()).is_some());
    }
}

//! The network between a node and its database: it passes bytes on, slowly, late, or not at all.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the network does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weather {
    Fair,
    /// Everything takes this long.
    Slow(Duration),
    /// Nothing arrives. What was sent arrives when it is over, as after lost packets.
    Silent,
    /// Connections are cut, and new ones too.
    Cut,
}

struct Shared {
    weather: Mutex<Weather>,
    is_over: AtomicBool,
    to: SocketAddr,
}

impl Shared {
    fn weather(&self) -> Weather {
        *self.weather.lock().unwrap()
    }
}

pub(super) struct Relay {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    pub(super) fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            weather: Mutex::new(Weather::Fair),
            is_over: AtomicBool::new(false),
            to,
        });
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if own.is_over.load(Ordering::Relaxed) {
                    return;
                }
                join(&stream, &own);
            }
        });
        Self { address, shared }
    }

    pub(super) fn turns(&self, weather: Weather) {
        *self.shared.weather.lock().unwrap() = weather;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the one who listens.
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes bytes on between the two, in both directions, until one of them ends.
fn join(near: &TcpStream, shared: &Arc<Shared>) {
    if shared.weather() == Weather::Cut {
        return;
    }
    let Ok(far) = TcpStream::connect(shared.to) else {
        return;
    };
    for (from, to) in [(near, &far), (&far, near)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            pass(&from, &to, &shared);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, shared: &Shared) {
    const LOOK: Duration = Duration::from_millis(20);
    from.set_read_timeout(Some(LOOK)).unwrap();
    let mut piece = [0; 16_384];
    while !shared.is_over.load(Ordering::Relaxed) && shared.weather() != Weather::Cut {
        let length = match from.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => length,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => return,
        };
        if let Weather::Slow(by) = shared.weather() {
            std::thread::sleep(by);
        }
        while shared.weather() == Weather::Silent && !shared.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        if shared.weather() == Weather::Cut || to.write_all(&piece[..length]).is_err() {
            return;
        }
    }
}

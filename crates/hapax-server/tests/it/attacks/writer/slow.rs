//! Downloads that never end: they hold up whoever planned them, and nobody else.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::token_of;
use crate::both::{Store, on_both_stores};
use crate::fixture::Server;

const ADA: &str = "a1a1a1a1-1111-4111-8111-111111111111";

/// How many downloads a worker runs of one tenant, and how many requests a host gets: both are the default.
const PLACES: usize = 4;

on_both_stores!(one_tenants_slow_downloads_leave_half_of_a_host_to_the_others);

/// A host whose files beneath /slow bring a byte a second until it is told to end them. The others come at once.
struct Host {
    address: SocketAddr,
    slow: Arc<Slow>,
}

#[derive(Default)]
struct Slow {
    now: AtomicUsize,
    most: AtomicUsize,
    is_over: AtomicBool,
    lock: Mutex<()>,
    over: Condvar,
}

impl Host {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, slow) = (listener.local_addr().unwrap(), Arc::new(Slow::default()));
        let shared = Arc::clone(&slow);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let slow = Arc::clone(&shared);
                // A client that is gone ends its thread.
                std::thread::spawn(move || drop(answer(stream, &slow)));
            }
        });
        Self { address, slow }
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}{name}", self.address)
    }

    fn slow_now(&self) -> usize {
        self.slow.now.load(Ordering::SeqCst)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.slow.is_over.store(true, Ordering::SeqCst);
        self.slow.over.notify_all();
    }
}

fn answer(stream: TcpStream, slow: &Slow) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut header = String::new();
        while reader.read_line(&mut header)? > 2 {
            header.clear();
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\netag: \"v\"\r\n\r\n")?;
        if line.starts_with("HEAD") {
            continue;
        }
        if line.contains("/slow") {
            let now = 1 + slow.now.fetch_add(1, Ordering::SeqCst);
            slow.most.fetch_max(now, Ordering::SeqCst);
            let dripped = drip(&mut stream, slow);
            slow.now.fetch_sub(1, Ordering::SeqCst);
            return dripped;
        }
        stream.write_all(&[b'x'; 1000])?;
    }
}

fn drip(stream: &mut TcpStream, slow: &Slow) -> std::io::Result<()> {
    while !slow.is_over.load(Ordering::SeqCst) {
        stream.write_all(b"x")?;
        let lock = slow.lock.lock().unwrap();
        drop(
            slow.over
                .wait_timeout(lock, Duration::from_secs(1))
                .unwrap(),
        );
    }
    Ok(())
}

fn plan(server: &Server, token: &str, url: &str) -> String {
    let job = json!({"work_id": "w", "artifact_id": url, "canonical_url": url}).to_string();
    let planned = server.bearing(token, "POST", "/v1/jobs", &job);
    assert_eq!(planned.status, 201, "{}", planned.text());
    planned.json()["job_id"].as_str().unwrap().to_owned()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn one_tenants_slow_downloads_leave_half_of_a_host_to_the_others(store: Store) {
    let (host, database) = (Host::start(), store.flags());
    let server = Server::start_with(|command| {
        command
            .args(&database)
            .env("HAPAX_DOWNLOAD_PRIVATE_ADDRESSES", "true");
    });
    let ada = token_of(&server, &database, ADA, "writer");
    let ada = ada.as_str();
    let greedy = server.token();
    for number in 0..3 * PLACES {
        plan(&server, &greedy, &host.url(&format!("/slow/{number}")));
    }
    until("the slow ones begin", || host.slow_now() >= PLACES / 2);
    let quick: Vec<String> = (0..3)
        .map(|number| plan(&server, ada, &host.url(&format!("/quick/{number}"))))
        .collect();
    for id in quick {
        let state = || -> Value {
            let job = server
                .bearing(ada, "GET", &format!("/v1/jobs/{id}"), "")
                .json();
            job["state"].clone()
        };
        until("the other tenant's downloads are done", || {
            matches!(state().as_str(), Some("INDEXED" | "DEDUPED"))
        });
    }
    assert_eq!(host.slow_now(), PLACES / 2, "and the slow ones still run");
    assert_eq!(host.slow.most.load(Ordering::SeqCst), PLACES / 2);
}

//! A LiteLLM in this process: loopback only, with the shapes that the real one was seen to answer, and faults on cue.
//! It counts what it is asked, so that a test can say "one call" and "no second batch". Nothing here is for production.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use hapax_effects::enrich::testing::{Endpoint, FakeLitellm, Reply};
//! use hapax_effects::enrich::{ChatRequest, Llm, Prompt, Rules, Text};
//!
//! let fake = FakeLitellm::start().await?;
//! fake.next(Endpoint::Chat, Reply::Status(503));
//! fake.when_text_has("poison", Reply::Null);
//!
//! let text = Text { clean_text: "Tea.", ..Text::default() };
//! let request = ChatRequest::new("t1-default", &Prompt::new(&text, &Rules::default()));
//! let llm = Llm::new(fake.config())?;
//! llm.chat(&request).await?;
//! assert_eq!((fake.counts().chat, fake.counts().chat_answered), (2, 1), "the first try got a 503");
//! assert_eq!(fake.answers_to(&request.body), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batches;
mod multipart;
mod reply;
mod server;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::Fingerprint;
use hapax_core::canonical::{Profile, canonical};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use super::{LlmConfig, Retry};

pub use batches::{BatchScript, Fate};
pub use reply::Reply;

use batches::FakeBatch;

/// The key that a fake asks for unless told.
pub const KEY: &str = "sk-fake-master-key";

/// What can be asked of a provider.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Endpoint {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/files`.
    Upload,
    /// `POST /v1/batches`.
    CreateBatch,
    /// `GET /v1/batches/{id}`.
    ReadBatch,
    /// `GET /v1/batches`.
    ListBatches,
    /// `GET /v1/files/{id}/content`.
    ReadFile,
}

impl Endpoint {
    /// The endpoint with this name: `chat`, `upload`, `create_batch`, `read_batch`, `list_batches` or `read_file`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "chat" => Self::Chat,
            "upload" => Self::Upload,
            "create_batch" => Self::CreateBatch,
            "read_batch" => Self::ReadBatch,
            "list_batches" => Self::ListBatches,
            "read_file" => Self::ReadFile,
            _ => return None,
        })
    }
}

/// Whose shapes are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// LiteLLM's: a wrong key is a 400, and the provider's `retry-after` has another name.
    LiteLlm,
    /// OpenAI's: what stands behind a real LiteLLM.
    OpenAi,
}

/// How often it was asked what. Calls with a wrong key are in `refused_keys` only.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Counts {
    /// Chats, failed ones included.
    pub chat: u64,
    /// Chats that got a 200: those that cost money.
    pub chat_answered: u64,
    /// Files that were uploaded.
    pub uploads: u64,
    /// Batches that were created.
    pub batches_created: u64,
    /// Batches that were read one by one.
    pub batch_reads: u64,
    /// Lists of batches.
    pub batch_lists: u64,
    /// Contents of files.
    pub file_reads: u64,
    /// Lines of batches that got a 200: those that cost money too.
    pub lines_answered: u64,
    /// Calls without the key.
    pub refused_keys: u64,
}

/// Everything that a fake remembers.
struct State {
    shape: Shape,
    key: Option<String>,
    next: BTreeMap<Endpoint, VecDeque<Reply>>,
    when_model: Vec<(String, Reply)>,
    when_text: Vec<(String, Reply)>,
    script: BatchScript,
    /// What becomes of the next batches, before that.
    scripts: VecDeque<BatchScript>,
    chats: Vec<Value>,
    /// By the hash of a request's body: how often it was answered with a 200.
    answered: BTreeMap<String, u64>,
    files: BTreeMap<String, File>,
    batches: Vec<FakeBatch>,
    counts: Counts,
    last_number: u64,
}

#[derive(Clone)]
struct File {
    name: String,
    purpose: String,
    content: Vec<u8>,
}

/// What listens on the port.
enum Door {
    Open(JoinHandle<()>),
    /// Bound and not listening: connections are refused, and nobody else gets the port.
    Shut(TcpSocket),
    Moving,
}

/// The fake. It stops when it is dropped.
pub struct FakeLitellm {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    door: Mutex<Door>,
}

impl FakeLitellm {
    /// Starts it on a free port of the loopback, with LiteLLM's shapes and [`KEY`].
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> io::Result<Self> {
        Self::start_as(0, Shape::LiteLlm, Some(KEY)).await
    }

    /// Starts it on this port (0: a free one) with these shapes. Without a key every key is taken.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub async fn start_as(port: u16, shape: Shape, key: Option<&str>) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let fake = Self {
            address: socket.local_addr()?,
            state: Arc::new(Mutex::new(State::new(shape, key))),
            door: Mutex::new(Door::Shut(socket)),
        };
        fake.up().await?;
        Ok(fake)
    }

    /// What clients are configured with: it ends in `/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// A configuration for it, with waits of a few milliseconds.
    #[must_use]
    pub fn config(&self) -> LlmConfig {
        LlmConfig {
            timeout: Duration::from_secs(20),
            retry: Retry {
                base: Duration::from_millis(2),
                cap: Duration::from_millis(10),
                ..Retry::default()
            },
            ..LlmConfig::new(self.base_url(), KEY)
        }
    }

    /// Goes away: what is under way breaks off, and connections are refused.
    ///
    /// # Errors
    /// When the port is lost.
    pub async fn down(&self) -> io::Result<()> {
        let Door::Open(task) = self.take_door() else {
            return Ok(());
        };
        task.abort();
        let _aborted = task.await;
        let socket = self.bound_again().await?;
        self.put_door(Door::Shut(socket));
        Ok(())
    }

    /// Comes back on the same port, with everything that it knew.
    ///
    /// # Errors
    /// When the port is lost.
    #[allow(clippy::unused_async, reason = "the other half of `down`")]
    pub async fn up(&self) -> io::Result<()> {
        match self.take_door() {
            Door::Shut(socket) => {
                let listener = socket.listen(1024)?;
                let task = tokio::spawn(server::run(listener, self.state.clone()));
                self.put_door(Door::Open(task));
            }
            other => self.put_door(other),
        }
        Ok(())
    }

    /// What the next call of this endpoint gets; the one after it gets what is said next.
    pub fn next(&self, endpoint: Endpoint, reply: Reply) {
        let mut state = self.state();
        state.next.entry(endpoint).or_default().push_back(reply);
    }

    /// What every chat and every line with this model gets.
    pub fn when_model_is(&self, model: &str, reply: Reply) {
        self.state().when_model.push((model.to_owned(), reply));
    }

    /// What every chat and every line gets whose messages hold this text. It goes before the model. Without any rule a
    /// text that holds `fake-reply:NAME` gets [`Reply::named`].
    pub fn when_text_has(&self, text: &str, reply: Reply) {
        self.state().when_text.push((text.to_owned(), reply));
    }

    /// What becomes of the batches that are created from now on.
    pub fn batches_go(&self, script: BatchScript) {
        self.state().script = script;
    }

    /// How many replies that were scripted for this endpoint nobody has had yet.
    #[must_use]
    pub fn scripted(&self, endpoint: Endpoint) -> usize {
        let state = self.state();
        state.next.get(&endpoint).map_or(0, VecDeque::len)
    }

    /// What becomes of the next batch that is created, and of no other. Said twice it is about the next two.
    pub fn batch_goes(&self, script: BatchScript) {
        self.state().scripts.push_back(script);
    }

    /// Batches that were held go on.
    pub fn release_batches(&self) {
        let mut state = self.state();
        state.script.is_held = false;
        for batch in &mut state.batches {
            batch.script.is_held = false;
        }
    }

    /// How often it was asked what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// The bodies of the chats, in order, failed ones included.
    #[must_use]
    pub fn chats(&self) -> Vec<Value> {
        self.state().chats.clone()
    }

    /// How often this body was answered with a 200, by a chat or in a batch: how often it was paid.
    #[must_use]
    pub fn answers_to(&self, body: &Value) -> u64 {
        let key = hash_of(body);
        self.state().answered.get(&key).copied().unwrap_or(0)
    }

    /// The most often that any one body was answered with a 200. More than one was paid twice.
    #[must_use]
    pub fn answers_max(&self) -> u64 {
        self.state().answered.values().copied().max().unwrap_or(0)
    }

    /// The batches as they are now, the oldest first. Looking at them does not move them.
    #[must_use]
    pub fn batches(&self) -> Vec<Value> {
        self.state().batches.iter().map(FakeBatch::shown).collect()
    }

    /// The lines of a batch's input.
    #[must_use]
    pub fn lines_of(&self, batch: &Value) -> Vec<Value> {
        let state = self.state();
        let file = batch["input_file_id"].as_str();
        let file = file.and_then(|file| state.files.get(file));
        file.map(|file| batches::lines(&file.content))
            .unwrap_or_default()
    }

    /// The port, bound again. A process that is being started may hold the old listener for a moment longer.
    async fn bound_again(&self) -> io::Result<TcpSocket> {
        let mut tries = 0;
        loop {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            match socket.bind(self.address) {
                Ok(()) => return Ok(socket),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < 100 => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn take_door(&self) -> Door {
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *door, Door::Moving)
    }

    fn put_door(&self, door: Door) {
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = door;
    }
}

impl Drop for FakeLitellm {
    fn drop(&mut self) {
        if let Door::Open(task) = self.take_door() {
            task.abort();
        }
    }
}

impl State {
    fn new(shape: Shape, key: Option<&str>) -> Self {
        Self {
            shape,
            key: key.map(str::to_owned),
            next: BTreeMap::new(),
            when_model: Vec::new(),
            when_text: Vec::new(),
            script: BatchScript::default(),
            scripts: VecDeque::new(),
            chats: Vec::new(),
            answered: BTreeMap::new(),
            files: BTreeMap::new(),
            batches: Vec::new(),
            counts: Counts::default(),
            last_number: 0,
        }
    }

    /// An id as long and as opaque as LiteLLM's own.
    fn new_id(&mut self, prefix: &str) -> String {
        self.last_number += 1;
        let hash = Fingerprint::of(format!("{prefix} {}", self.last_number).as_bytes()).hex();
        match self.shape {
            Shape::LiteLlm => format!("{prefix}-bGl0ZWxsbV9wcm94eQ{}", hash.repeat(4)),
            Shape::OpenAi => format!("{prefix}-{}", &hash[..24]),
        }
    }

    /// What a body gets by the rules, its text before its model.
    fn reply_to(&self, body: &Value) -> Reply {
        let said = body["messages"].to_string();
        let by_text = self
            .when_text
            .iter()
            .find(|(text, _)| said.contains(text.as_str()));
        let by_model = || {
            let model = body["model"].as_str();
            self.when_model
                .iter()
                .find(|(name, _)| model == Some(name.as_str()))
        };
        let ruled = by_text.or_else(by_model).map(|(_, reply)| reply.clone());
        ruled
            .or_else(|| Reply::marked(&said))
            .unwrap_or(Reply::Good)
    }

    fn paid(&mut self, body: &Value) {
        *self.answered.entry(hash_of(body)).or_default() += 1;
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash_of(body: &Value) -> String {
    let text = body.to_string();
    let bytes = canonical(text.as_bytes(), Profile::Hcj1).unwrap_or_else(|_| text.into_bytes());
    Fingerprint::of(&bytes).hex()
}

fn now_s() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| since.as_secs())
}

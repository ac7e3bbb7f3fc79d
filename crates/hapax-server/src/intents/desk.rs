//! Where receipts are worked on in this process: what carries them out, and who waits for one to come to a stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use hapax::job::{Handler, Handling, Held};
use hapax_core::job::JobId;
use hapax_effects::gateway::Gateway;
use hapax_intake::intent::Policy;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::graph::{Intents, Settings};
use crate::config::{self, Config};
use crate::exit::Usage;

/// How many stops a slow waiter may miss before it looks for itself.
const MISSED_MAX: usize = 1024;
/// What planning and recording may take beside the gateway.
const BESIDE_GATEWAY: Duration = Duration::from_secs(5);

/// The desk. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Desk {
    intents: Arc<Intents>,
    policy: Arc<Policy>,
    stopped: broadcast::Sender<JobId>,
    /// Whether a worker of this process takes receipts.
    is_open: Arc<AtomicBool>,
    patience: Duration,
}

impl Desk {
    /// The desk that the configuration describes.
    ///
    /// # Errors
    /// [`Usage`] when the gateway or the time zone cannot be used.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let timeout = Duration::from_secs(config.gateway_timeout_seconds);
        let gateway = match config.gateway_base_url.as_str() {
            "" if config.execute_actions => {
                return Err(Usage::error(
                    "EXECUTE_ACTIONS is true and GATEWAY_BASE_URL is not set; set it, or execute nothing",
                ));
            }
            "" => None,
            url => {
                let bearer = config::gateway_token()?;
                let made = Gateway::new(url, bearer.as_deref(), timeout);
                Some(made.map_err(|why| Usage::error(format!("GATEWAY_BASE_URL: {why}")))?)
            }
        };
        let timezone = config.intent_timezone.parse().map_err(|why| {
            Usage::error(format!(
                "intent_timezone = {:?}: {why}",
                config.intent_timezone
            ))
        })?;
        let policy = Policy {
            timezone,
            ..Policy::default()
        };
        let settings = Settings {
            execute: config.execute_actions,
            gateway,
            policy: policy.clone(),
        };
        Ok(Self {
            intents: Arc::new(Intents::new(settings)),
            policy: Arc::new(policy),
            stopped: broadcast::channel(MISSED_MAX).0,
            is_open: Arc::default(),
            patience: timeout.saturating_add(BESIDE_GATEWAY),
        })
    }

    /// How packets are planned.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Says that a worker of this process takes receipts from now on.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Somebody to wait with. Ask before the receipt is given to the queue, or its stop may be missed.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter {
            stops: self.stopped.subscribe(),
            is_open: self.is_open.load(Ordering::Relaxed),
            patience: self.patience,
        }
    }
}

impl Handler for Desk {
    fn run(&self, held: Held) -> Handling<'_> {
        Box::pin(async move {
            let id = held.job().id.clone();
            self.intents.run(held).await;
            // Nobody may wait.
            let _ = self.stopped.send(id);
        })
    }
}

/// Waits for one receipt.
pub(crate) struct Waiter {
    stops: broadcast::Receiver<JobId>,
    is_open: bool,
    patience: Duration,
}

impl Waiter {
    /// Ends when an attempt at the receipt has, at once if nobody here works on receipts, or when it takes too long.
    pub(crate) async fn wait(mut self, id: &JobId, most: Duration) {
        if !self.is_open {
            return;
        }
        let until = Instant::now() + self.patience.min(most);
        loop {
            match tokio::time::timeout_at(until, self.stops.recv()).await {
                Ok(Ok(stopped)) if stopped == *id => return,
                Ok(Ok(_)) => {}
                // Too much was missed to know: whoever waited looks for itself.
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

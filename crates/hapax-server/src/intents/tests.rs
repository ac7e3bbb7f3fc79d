//! Receipts from the packet to the outcome, with a gateway on loopback and every crash in between.

mod crashes;
mod gateway;
mod projections;

use std::sync::Arc;
use std::time::Duration;

use hapax::job::testing::MemoryQueue;
use hapax_core::Tenant;
use hapax_core::job::{
    Act, Ask, Deed, Done, Fence, JobId, NewJob, On, Place, Queue, Refusal, Resolution,
};
use hapax_intake::intent::{Answer, Packet, Policy};
use hapax_store::Clock;
use hapax_store::sqlite::{SqliteLedger, SqliteOptions};
use serde_json::{Value, json};

use super::act::{self, NoAnswer};
use super::graph::{Intents, Settings};
use super::inbox::{self, Received};
use super::receipt::{Receipt, Status, project};
use gateway::{Fake, Manner};
use hapax::job::Held;

const T: Tenant = Tenant::DEFAULT;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TASK: &str = r#"{"kind":"intent","intent_type":"create_task","source":"phone","actor":"ada",
    "request_id":"r-1","correlation_id":"c-1","fields":{"title":"Call Grace"}}"#;
const UNCLEAR: &str = r#"{"kind":"intent","intent_type":"create_task","source":"phone",
    "fields":{"title":"Call Grace","due":"when it suits"}}"#;
/// Long enough for an answer that comes.
const PATIENT: Duration = Duration::from_secs(20);
/// Short, for an answer that does not.
const SHORT: Duration = Duration::from_secs(1);

/// One server without a door: a queue, its clock, a gateway and how receipts are run.
struct Scene {
    clock: Clock,
    queue: Arc<dyn Queue>,
    intents: Intents,
}

fn settings(fake: &Fake, timeout: Duration) -> Settings {
    Settings {
        execute: true,
        gateway: Some(fake.client(timeout)),
        policy: Policy::default(),
    }
}

fn job(text: &str, queue: &dyn Queue) -> NewJob {
    let packet = Packet::read(text.as_bytes()).unwrap();
    let received = Received {
        at: queue.time(),
        trace_id: TRACE.to_owned(),
        correlation_id: packet.correlation_id.clone(),
        actor: None,
    };
    // Anywhere, so that the helpers of tests, which know no place, can lease it.
    let job = inbox::job(T, &packet, text, &received).unwrap();
    job.in_place(Place::default())
}

impl Scene {
    fn new(settings: Settings) -> Self {
        let clock = Clock::system();
        Self {
            queue: Arc::new(MemoryQueue::with_clock(clock.clone())),
            clock,
            intents: Intents::new(settings),
        }
    }

    async fn receive(&self, text: &str) -> JobId {
        self.plan(job(text, &*self.queue)).await
    }

    async fn plan(&self, job: NewJob) -> JobId {
        let planned = self.queue.plan(T, vec![job]).await.unwrap();
        planned[0].job.id.clone()
    }

    /// Runs what is due, once. Answers how many receipts that were.
    async fn run(&self) -> usize {
        let due = Held::lease(&self.queue, T, Ask::by("worker-1")).await;
        let due = due.unwrap();
        let count = due.len();
        for held in due {
            self.intents.run(held).await;
        }
        count
    }

    async fn receipt(&self, id: &JobId) -> Receipt {
        let (job, ops) = self.queue.job(T, id.clone()).await.unwrap().unwrap();
        project(&job, &ops)
    }

    async fn apply(&self, act: Act) -> Result<Done, Refusal> {
        self.queue.apply(T, vec![act]).await.unwrap().remove(0)
    }

    async fn answer(&self, id: &JobId, asked: &str, answer: &Answer) -> Result<(), NoAnswer> {
        let (job, ops) = self.queue.job(T, id.clone()).await.unwrap().unwrap();
        let with = (&Policy::default(), self.queue.time());
        let act = act::answer(&job, &ops, asked, answer, with)?;
        self.apply(act).await.unwrap();
        Ok(())
    }

    async fn replay(&self, id: &JobId) {
        let (job, _) = self.queue.job(T, id.clone()).await.unwrap().unwrap();
        self.apply(act::replay(&job)).await.unwrap();
    }

    /// The id of the open question.
    async fn question(&self, id: &JobId) -> String {
        let receipt = self.receipt(id).await;
        assert_eq!(receipt.status, Status::NeedsClarification, "{receipt:?}");
        let question = receipt.clarification.unwrap();
        question["id"].as_str().unwrap().to_owned()
    }

    fn rest(&self) {
        self.clock.advance(Duration::from_secs(3600));
    }
}

#[tokio::test]
async fn an_intent_is_planned_and_carried_out_with_one_call() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let id = scene.receive(TASK).await;
    assert_eq!(scene.receipt(&id).await.status, Status::Accepted);
    assert_eq!(scene.run().await, 1);

    let receipt = scene.receipt(&id).await;
    let shown = serde_json::to_value(&receipt).unwrap();
    assert_eq!(receipt.status, Status::Executed, "{shown}");
    assert_eq!(receipt.http_status, 200);
    assert_eq!(shown["status"], "executed");
    assert_eq!(shown["receipt_id"], id.as_str());
    assert_eq!(shown["correlation_id"], "c-1");
    assert_eq!(shown["trace_id"], TRACE);
    assert_eq!(shown["plan"]["actions"][0]["action"], "create_task");
    assert_eq!(shown["details"]["actions"][0]["state"], "done");
    assert_eq!(shown["details"]["actions"][0]["status_code"], 200);
    assert_eq!(shown["clarification"], Value::Null);
    assert!(shown.get("error").is_none() && shown.get("http_status").is_none());

    let seen = fake.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].path, "/v1/notion/tasks/create");
    assert_eq!(seen[0].headers["authorization"], "Bearer secret");
    assert_eq!(seen[0].headers["x-trace-id"], TRACE);
    let parent = seen[0].headers["traceparent"].to_str().unwrap();
    assert!(parent.starts_with(&format!("00-{TRACE}-")), "{parent}");
    let key = shown["details"]["actions"][0]["idempotency_key"].clone();
    assert_eq!(
        seen[0].body,
        json!({
            "request_id": "r-1",
            "idempotency_key": key,
            "actor": "ada",
            "payload": {"task": {"title": "Call Grace"}},
            "trace_id": TRACE,
        })
    );

    scene.receive(TASK).await;
    assert_eq!(scene.run().await, 0, "a duplicate runs nothing");
    assert_eq!(scene.receipt(&id).await, receipt);
}

#[tokio::test]
async fn a_receipt_lives_the_same_life_on_sqlite() {
    let fake = Fake::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(settings(&fake, SHORT));
    let options = SqliteOptions {
        clock: scene.clock.clone(),
        ..SqliteOptions::default()
    };
    let ledger = SqliteLedger::open(&folder.path().join("hapax.db"), options);
    scene.queue = Arc::new(ledger.unwrap());
    let id = scene.receive(UNCLEAR).await;
    scene.run().await;
    let asked = scene.question(&id).await;
    let answer = Answer::Choice("none".into());
    scene.answer(&id, &asked, &answer).await.unwrap();
    fake.next(Manner::Hangs);
    scene.run().await;
    assert_eq!(scene.receipt(&id).await.details["in_doubt"], true);
    scene.intents = Intents::new(settings(&fake, PATIENT));
    scene.rest();
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Executed, "{receipt:?}");
    assert_eq!((fake.seen().len(), fake.keys().len()), (2, 1));

    scene.replay(&id).await;
    scene.run().await;
    let asked = scene.question(&id).await;
    scene.answer(&id, &asked, &answer).await.unwrap();
    scene.run().await;
    assert_eq!(scene.receipt(&id).await.status, Status::Executed);
    assert_eq!((fake.seen().len(), fake.keys().len()), (3, 2));
}

#[tokio::test]
async fn an_unsure_intent_is_rejected_and_nothing_is_called() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let id = scene
        .receive(r#"{"kind":"intent","intent_type":"create_task","confidence":0.2}"#)
        .await;
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(
        (receipt.status, receipt.http_status),
        (Status::Rejected, 200)
    );
    assert_eq!(receipt.details["code"], "low_confidence");
    assert_eq!(receipt.plan, json!({"actions": []}));
    assert!(fake.seen().is_empty());
}

#[tokio::test]
async fn a_refusal_of_the_gateway_fails_the_receipt_with_one_call() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    fake.next(Manner::Status(500));
    let id = scene.receive(TASK).await;
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!((receipt.status, receipt.http_status), (Status::Failed, 502));
    let error = receipt.error.clone().unwrap();
    assert_eq!(error["code"], "downstream_failed");
    assert_eq!(error["details"]["status_code"], 500);
    scene.rest();
    assert_eq!(scene.run().await, 0, "it is not tried again by itself");
    assert_eq!(fake.seen().len(), 1);

    // A person may: what comes then has the same key.
    let on = On::Job(id.clone());
    let fence = Fence::none();
    let deed = Deed::Retry;
    scene.apply(Act { on, fence, deed }).await.unwrap();
    assert_eq!(scene.receipt(&id).await.status, Status::Planned);
    scene.run().await;
    assert_eq!(scene.receipt(&id).await.status, Status::Executed);
    assert_eq!((fake.seen().len(), fake.keys().len()), (2, 1));
}

#[tokio::test]
async fn a_time_out_is_in_doubt_and_tried_again_with_the_same_key() {
    let fake = Fake::start().await;
    let mut scene = Scene::new(settings(&fake, SHORT));
    fake.next(Manner::Hangs);
    let id = scene.receive(TASK).await;
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(
        (receipt.status, receipt.http_status),
        (Status::Planned, 200)
    );
    assert_eq!(receipt.details["in_doubt"], true);
    assert_eq!(receipt.details["actions"][0]["state"], "in_doubt");
    assert!(receipt.details["next_try_at"].is_string(), "{receipt:?}");
    assert!(receipt.error.is_none());

    scene.intents = Intents::new(settings(&fake, PATIENT));
    scene.rest();
    assert_eq!(scene.run().await, 1);
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Executed);
    assert_eq!(receipt.details["actions"][0]["tries"], 2);
    assert!(receipt.details.get("in_doubt").is_none());
    assert_eq!((fake.seen().len(), fake.keys().len()), (2, 1));
}

#[tokio::test]
async fn a_call_in_doubt_is_not_called_failed_because_nobody_can_answer_now() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, SHORT));
    fake.next(Manner::Hangs);
    fake.next(Manner::Status(409));
    let id = scene.receive(TASK).await;
    scene.run().await;
    scene.rest();
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Planned, "the first call is at work");
    fake.stop().await;
    scene.rest();
    assert_eq!(scene.run().await, 1);
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Planned, "{receipt:?}");
    assert_eq!(receipt.details["in_doubt"], true);
}

#[tokio::test]
async fn a_gateway_that_cannot_be_reached_fails_the_receipt_after_a_few_tries() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    fake.stop().await;
    let id = scene.receive(TASK).await;
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!((receipt.status, receipt.http_status), (Status::Failed, 502));
    let error = receipt.error.unwrap();
    assert_eq!(error["code"], "downstream_failed");
    assert_eq!(error["details"]["status_code"], Value::Null);
}

#[tokio::test]
async fn a_question_is_answered_and_the_same_receipt_goes_on() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let id = scene.receive(UNCLEAR).await;
    scene.run().await;
    let asked = scene.question(&id).await;
    let receipt = scene.receipt(&id).await;
    let question = receipt.clarification.unwrap();
    assert_eq!(question["field"], "/fields/due");
    assert!(!question["choices"].as_array().unwrap().is_empty());
    scene.rest();
    assert_eq!(scene.run().await, 0, "it waits");

    let misfit = scene
        .answer(&id, &asked, &Answer::Text("soon".into()))
        .await;
    assert!(matches!(misfit, Err(NoAnswer::Misfit(_))), "{misfit:?}");
    let answer = Answer::Text("tomorrow".into());
    let other = scene.answer(&id, "nothing", &answer).await;
    assert_eq!(other, Err(NoAnswer::NotOpen));

    // Three days later, tomorrow is another day.
    scene.clock.advance(Duration::from_secs(3 * 86_400));
    let tomorrow = scene.queue.time().plus(Duration::from_secs(86_400));
    let tomorrow = tomorrow.to_string()[..10].to_owned();
    scene.answer(&id, &asked, &answer).await.unwrap();
    assert_eq!(scene.receipt(&id).await.status, Status::Accepted);
    assert_eq!(
        scene.answer(&id, &asked, &answer).await,
        Err(NoAnswer::NotOpen)
    );
    assert_eq!(scene.run().await, 1);
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Executed, "{receipt:?}");
    assert_eq!(receipt.clarification, None);
    let seen = fake.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body["payload"]["task"]["due"], tomorrow.as_str());
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let id = scene.receive(UNCLEAR).await;
    scene.run().await;
    let first = scene.question(&id).await;
    // Whoever resolves an operation by its key is not checked.
    let (_, ops) = scene.queue.job(T, id.clone()).await.unwrap().unwrap();
    let op = ops.iter().find(|op| op.key.as_str() == first).unwrap();
    let act = Act {
        on: On::Op(op.key.clone()),
        fence: Fence::none(),
        deed: Deed::Resolve(Resolution::Result(r#"{"shrug":true}"#.into())),
    };
    scene.apply(act).await.unwrap();
    scene.run().await;
    let second = scene.question(&id).await;
    assert_ne!(first, second);
    let answer = Answer::Choice("none".into());
    scene.answer(&id, &second, &answer).await.unwrap();
    scene.run().await;
    assert_eq!(scene.receipt(&id).await.status, Status::Executed);
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn a_replay_on_purpose_has_another_key_and_keeps_what_was() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let id = scene.receive(TASK).await;
    scene.run().await;
    for replays in 1..=2 {
        scene.replay(&id).await;
        let receipt = scene.receipt(&id).await;
        assert_eq!(receipt.status, Status::Accepted, "nothing of it counts");
        scene.run().await;
        let receipt = scene.receipt(&id).await;
        assert_eq!(receipt.status, Status::Executed);
        assert!(receipt.details["replay"].as_u64().unwrap() >= replays);
    }
    assert_eq!((fake.seen().len(), fake.keys().len()), (3, 3));
    let (_, ops) = scene.queue.job(T, id).await.unwrap().unwrap();
    assert_eq!(ops.len(), 9, "PLAN, ACT and OUTCOME of each");
}

#[tokio::test]
async fn a_replay_asks_anew_and_an_old_question_is_closed() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let id = scene.receive(UNCLEAR).await;
    scene.run().await;
    let old = scene.question(&id).await;
    scene.replay(&id).await;
    let answer = Answer::Choice("none".into());
    let late = scene.answer(&id, &old, &answer).await;
    assert_eq!(late, Err(NoAnswer::NotOpen));
    scene.run().await;
    let new = scene.question(&id).await;
    assert_ne!(old, new);
    scene.answer(&id, &new, &answer).await.unwrap();
    scene.run().await;
    assert_eq!(scene.receipt(&id).await.status, Status::Executed);
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn while_execution_is_off_a_receipt_is_planned_and_nothing_is_called() {
    let fake = Fake::start().await;
    let off = Settings {
        execute: false,
        ..settings(&fake, PATIENT)
    };
    let mut scene = Scene::new(off);
    let id = scene.receive(TASK).await;
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(
        (receipt.status, receipt.http_status),
        (Status::Planned, 200)
    );
    assert_eq!(receipt.details["reason"], "execution is switched off");
    assert_eq!(receipt.plan["actions"].as_array().unwrap().len(), 1);

    scene.intents = Intents::new(settings(&fake, PATIENT));
    assert_eq!(scene.run().await, 0, "switching it on runs nothing old");
    assert!(fake.seen().is_empty());
    scene.replay(&id).await;
    scene.run().await;
    assert_eq!(scene.receipt(&id).await.status, Status::Executed);
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn an_action_in_doubt_stays_so_when_execution_is_switched_off() {
    let fake = Fake::start().await;
    let mut scene = Scene::new(settings(&fake, SHORT));
    fake.next(Manner::Hangs);
    let id = scene.receive(TASK).await;
    scene.run().await;
    scene.intents = Intents::new(Settings {
        execute: false,
        ..settings(&fake, PATIENT)
    });
    scene.rest();
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Planned);
    assert_eq!(receipt.details["in_doubt"], true);
    assert_eq!(
        receipt.details["actions"][0]["error"]["code"],
        "execution_switched_off"
    );
    assert_eq!(fake.seen().len(), 1);

    scene.intents = Intents::new(settings(&fake, PATIENT));
    scene.rest();
    scene.run().await;
    assert_eq!(scene.receipt(&id).await.status, Status::Executed);
    assert_eq!((fake.seen().len(), fake.keys().len()), (2, 1));
}

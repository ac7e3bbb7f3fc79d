//! How a receipt stands after every write, and in the states that no ordinary run leaves behind.

use std::sync::Arc;

use hapax::job::testing::{Cut, FaultyQueue};
use hapax::job::{Class, Effect, Fault, Held};
use hapax_core::job::{Ask, Job, JobKind, Queue};
use hapax_intake::intent::{ActionName, Plan};

use super::super::stored::Planned;
use super::*;

/// The status after each write of an undisturbed run.
async fn statuses(text: &str, settings: impl Fn() -> Settings) -> Vec<Status> {
    let mut statuses = Vec::new();
    for write in 1.. {
        let scene = Scene::new(settings());
        let id = scene.receive(text).await;
        let faulty = FaultyQueue::new(scene.queue.clone()).cut(write, Cut::DiesAfter);
        let faulty = Arc::new(faulty);
        let queue: Arc<dyn Queue> = faulty.clone();
        let held = Held::lease(&queue, T, Ask::by("worker-1")).await;
        tokio::select! {
            biased;
            () = scene.intents.run(held.unwrap().remove(0)) => break,
            () = faulty.died() => statuses.push(scene.receipt(&id).await.status),
        }
    }
    // How many writes a status lasts is not what is asked.
    statuses.dedup();
    statuses
}

#[tokio::test]
async fn a_receipt_goes_from_accepted_to_its_end_and_never_back() {
    use Status::{Accepted, Executed, Failed, NeedsClarification, Planned, Rejected};
    let fake = Fake::start().await;
    let on = || settings(&fake, PATIENT);
    let off = || Settings {
        execute: false,
        ..on()
    };
    let fails = || {
        fake.next(Manner::Status(422));
        on()
    };
    let unsure = r#"{"kind":"intent","intent_type":"create_task","confidence":0.1}"#;
    assert_eq!(statuses(TASK, on).await, [Accepted, Planned, Executed]);
    assert_eq!(statuses(TASK, off).await, [Accepted, Planned]);
    assert_eq!(statuses(unsure, on).await, [Accepted, Rejected]);
    assert_eq!(statuses(UNCLEAR, on).await, [Accepted, NeedsClarification]);
    let failed = statuses(TASK, fails).await;
    assert_eq!(failed, [Accepted, Planned, Failed]);
}

#[tokio::test]
async fn a_receipt_that_is_given_up_in_doubt_says_so() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, SHORT));
    fake.next(Manner::Hangs);
    let id = scene.plan(job(TASK, &*scene.queue).max_attempts(1)).await;
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!((receipt.status, receipt.http_status), (Status::Failed, 502));
    let error = receipt.error.unwrap();
    assert_eq!(error["code"], "downstream_timeout");
    assert_eq!(receipt.details["in_doubt"], true);
}

#[tokio::test]
async fn a_job_without_a_packet_is_a_failed_receipt() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let kind = JobKind::new("intent").unwrap();
    let empty = NewJob::new(kind, "phone", "key", "intent:x").unwrap();
    let id = scene.plan(empty).await;
    assert_eq!(scene.receipt(&id).await.status, Status::Accepted);
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Failed);
    let error = receipt.error.unwrap();
    assert_eq!(error["code"], "given_up");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("the job holds no packet"), "{message}");
    assert_eq!(receipt.intent_id, None);
}

#[tokio::test]
async fn a_receipt_whose_workers_died_is_failed_in_words() {
    let job = Job {
        state: hapax_core::job::State::Dead,
        error: Some("its leases ran out: the workers died or stalled".into()),
        ..job(TASK, &hapax::job::testing::MemoryQueue::new()).at(T, 1, hapax_core::Time::from_ms(0))
    };
    let receipt = project(&job, &[]);
    assert_eq!(receipt.status, Status::Failed);
    let error = receipt.error.unwrap();
    assert_eq!(error["code"], "given_up");
    assert_eq!(
        error["message"],
        "its leases ran out: the workers died or stalled"
    );
}

/// A plan of two actions, as no planner makes one yet.
fn two_actions() -> Planned {
    let action = |step: u32, title: &str| {
        json!({
            "step": step,
            "action": ActionName::CreateTask,
            "path": ActionName::CreateTask.path(),
            "payload": {"task": {"title": title}},
        })
    };
    let plan = json!({"outcome": "actions", "actions": [action(1, "One"), action(2, "Two")]});
    let plan: Plan = serde_json::from_value(plan).unwrap();
    Planned::new(plan, true)
}

#[tokio::test]
async fn actions_are_carried_out_in_order_and_the_first_failure_stops_them() {
    let fake = Fake::start().await;
    let scene = Scene::new(settings(&fake, PATIENT));
    let id = scene.receive(TASK).await;
    let held = Held::lease(&scene.queue, T, Ask::by("worker-1")).await;
    let held = held.unwrap().remove(0);
    let planning = Effect::new("PLAN", Class::Replayable);
    let planned = held.run(&planning, |_| async { Ok::<_, Fault>(two_actions()) });
    planned.await.unwrap();
    held.release().await.unwrap();

    for status in [200, 500] {
        fake.next(Manner::Status(status));
    }
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Failed);
    let states = |receipt: &Receipt| {
        let actions = receipt.details["actions"].as_array().unwrap();
        let state = |action: &Value| action["state"].as_str().unwrap().to_owned();
        actions.iter().map(state).collect::<Vec<String>>()
    };
    assert_eq!(states(&receipt), ["done", "failed"]);

    let act = Act {
        on: On::Job(id.clone()),
        fence: Fence::none(),
        deed: Deed::Retry,
    };
    scene.apply(act).await.unwrap();
    scene.run().await;
    let receipt = scene.receipt(&id).await;
    assert_eq!(receipt.status, Status::Executed);
    assert_eq!(states(&receipt), ["done", "done"]);
    assert_eq!((fake.seen().len(), fake.keys().len()), (3, 2));
}

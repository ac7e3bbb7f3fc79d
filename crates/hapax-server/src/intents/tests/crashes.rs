//! The process dies at every write of a receipt's life, and two workers meet at one action.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax::job::testing::{
    Cut, FaultyQueue, HistoryQueue, MemoryQueue, Trial, crash_after_every_step,
};
use hapax::job::{Held, OpState};
use hapax_core::job::{Act, Ask, Deed, Fence, JobId, On, Queue, State};
use hapax_intake::intent::Answer;
use tokio::sync::Notify;

use super::super::graph::{Course, plan};
use super::*;

#[tokio::test]
async fn a_crash_at_any_write_ends_executed_and_repeats_no_action_under_another_key() {
    let fake = Fake::start().await;
    let settings = Arc::new(settings(&fake, PATIENT));
    // Every world has the packet of one moment, so that all of them record the same.
    let start = MemoryQueue::new();
    let new = job(TASK, &start);
    let crashed = crash_after_every_step(|| async {
        let job = new.clone().at(T, 1, start.time());
        Trial {
            queue: Arc::new(MemoryQueue::new()),
            job: new.clone(),
            plan: plan(),
            state: Course::of(&settings, &job).unwrap(),
        }
    })
    .await;
    assert_eq!(crashed.job.state, State::Indexed);
    assert_eq!(
        crashed.writes, 6,
        "the beginning of three steps and the end of each, one with the next beginning, and two moves"
    );
    assert_eq!(crashed.crashes, 12);
    assert_eq!(fake.keys().len(), 1, "one packet, one action, one key");
    // The undisturbed run, one call for each crash, and a second one where the process died with the answer in hand.
    assert_eq!(fake.seen().len(), 1 + 12 + 1);
}

/// Runs what the process can until it dies, with a person who answers whatever is asked.
async fn live(scene: &Scene, id: &JobId, queue: &Arc<dyn Queue>, died: impl Future<Output = ()>) {
    let life = async {
        for _ in 0..6 {
            let due = Held::lease(queue, T, Ask::by("worker-1")).await.unwrap();
            for held in due {
                scene.intents.run(held).await;
            }
            let receipt = scene.receipt(id).await;
            if receipt.status == Status::NeedsClarification {
                let asked = scene.question(id).await;
                let answer = Answer::Choice("none".into());
                scene.answer(id, &asked, &answer).await.unwrap();
            }
        }
    };
    tokio::select! {
        biased;
        () = life => {}
        () = died => {}
    }
}

async fn give_back(scene: &Scene, id: &JobId) {
    let (job, _) = scene.queue.job(T, id.clone()).await.unwrap().unwrap();
    if job.lease.is_some() {
        let act = Act {
            on: On::Job(id.clone()),
            fence: Fence::of("worker-1", job.epoch),
            deed: Deed::Release,
        };
        scene.apply(act).await.unwrap();
    }
}

#[tokio::test]
async fn a_crash_at_any_write_of_an_answered_question_ends_executed_too() {
    let fake = Fake::start().await;
    let mut calls = BTreeMap::new();
    let mut writes = usize::MAX;
    for cut in [Cut::DiesBefore, Cut::DiesAfter] {
        for write in 0.. {
            if write > writes {
                break;
            }
            let scene = Scene::new(settings(&fake, PATIENT));
            let before = fake.seen().len();
            let id = scene.receive(UNCLEAR).await;
            let faulty = Arc::new(FaultyQueue::new(scene.queue.clone()).cut(write, cut));
            let queue: Arc<dyn Queue> = faulty.clone();
            live(&scene, &id, &queue, faulty.died()).await;
            if write == 0 {
                // Nothing was cut: this is how many writes there are.
                writes = faulty.writes();
            } else {
                assert!(faulty.is_dead(), "the life has a write {write}");
            }
            give_back(&scene, &id).await;
            live(&scene, &id, &scene.queue, std::future::pending()).await;
            let receipt = scene.receipt(&id).await;
            assert_eq!(
                receipt.status,
                Status::Executed,
                "{cut:?} at {write}: {receipt:?}"
            );
            calls.insert((format!("{cut:?}"), write), fake.seen().len() - before);
        }
    }
    assert!(writes >= 10, "{writes}");
    assert_eq!(fake.keys().len(), 1);
    let twice: Vec<_> = calls.iter().filter(|(_, calls)| **calls == 2).collect();
    assert!(
        calls.values().all(|calls| (1..=2).contains(calls)),
        "{calls:?}"
    );
    assert_eq!(
        twice.len(),
        1,
        "only the call that was not recorded: {twice:?}"
    );
}

#[tokio::test]
async fn two_workers_at_one_action_record_it_once() {
    let fake = Fake::start().await;
    let mut scene = Scene::new(settings(&fake, PATIENT));
    let history = Arc::new(HistoryQueue::new(scene.queue.clone()));
    scene.queue = history.clone();
    let id = scene.receive(TASK).await;
    let go = Arc::new(Notify::new());
    fake.next(Manner::Waits(go.clone()));

    let slow = Held::lease(&scene.queue, T, Ask::by("worker-1")).await;
    let slow = slow.unwrap().remove(0);
    let other = async {
        while fake.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        // Its lease is over, as far as the queue knows.
        scene.clock.advance(Duration::from_secs(121));
        let held = Held::lease(&scene.queue, T, Ask::by("worker-2")).await;
        scene.intents.run(held.unwrap().remove(0)).await;
        go.notify_one();
    };
    tokio::join!(scene.intents.run(slow.clone()), other);

    assert!(slow.is_lost(), "the late one is told so");
    assert_eq!(scene.receipt(&id).await.status, Status::Executed);
    assert_eq!((fake.seen().len(), fake.keys().len()), (2, 1));
    assert_eq!(history.wrongs(), Vec::<String>::new());
    let (_, ops) = scene.queue.job(T, id).await.unwrap().unwrap();
    let act = ops.iter().find(|op| op.kind == "ACT").unwrap();
    assert_eq!((act.state, act.tries), (OpState::Done, 2));
}

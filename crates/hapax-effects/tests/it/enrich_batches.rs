//! Batches through the client, from the upload to the last line, with everything that a provider may do to them.

use std::collections::BTreeSet;
use std::time::Duration;

use hapax_core::Fingerprint;
use hapax_core::entry::Schema;
use hapax_effects::enrich::testing::{BatchScript, Endpoint, FakeLitellm, Fate, Reply};
use hapax_effects::enrich::{
    Batch, BatchFile, BatchStatus, CustomId, FileId, Llm, LlmConfig, LlmError, NewBatch, Outcome,
    OutputLine, Owner, Parser, Prompt, Reason, Rules, Settled, Text, batch_line, settle,
};

use crate::enrich_calls::fake;

/// The names and the lines of so many texts.
fn lines(texts: &[&str]) -> (Vec<String>, String) {
    let mut names = Vec::new();
    let mut jsonl = String::new();
    for (number, clean_text) in (1..).zip(texts) {
        let hash = Fingerprint::of(clean_text.as_bytes());
        let id = CustomId::new(Schema::PkmTest, Owner::Entry(number), &hash, 1);
        let text = Text {
            clean_text,
            ..Text::default()
        };
        let prompt = Prompt::new(&text, &Rules::default());
        names.push(id.to_string());
        jsonl.push_str(&batch_line(&id, "t1-batch", &prompt));
        jsonl.push('\n');
    }
    (names, jsonl)
}

/// These lines as a file to upload.
pub(crate) fn file<'a>(lines: impl IntoIterator<Item = &'a str>) -> BatchFile {
    let mut file = BatchFile::new(&std::env::temp_dir()).unwrap();
    for line in lines {
        file.push(line).unwrap();
    }
    file
}

async fn created(llm: &Llm, jsonl: &str) -> Batch {
    let file = llm.upload(file(jsonl.lines()), "t1.jsonl").await.unwrap();
    let batch = NewBatch::new(file, "24h", [("hapax_op", "op-1")]).unwrap();
    llm.create_batch(&batch).await.unwrap()
}

/// Reads it until nothing changes any more, and says which states it was seen in.
async fn ended(llm: &Llm, mut batch: Batch) -> (Batch, Vec<String>) {
    let mut seen = vec![batch.status.to_string()];
    while !batch.status.is_terminal() {
        batch = llm.batch(&batch.id).await.unwrap();
        seen.push(batch.status.to_string());
    }
    (batch, seen)
}

async fn settled(llm: &Llm, batch: &Batch, names: &[String]) -> Settled {
    let mut files = Vec::new();
    for file in [&batch.output_file_id, &batch.error_file_id]
        .into_iter()
        .flatten()
    {
        files.push(llm.content(file).await.unwrap());
    }
    settle(names, files.iter().flat_map(|file| OutputLine::all(file)))
}

/// What becomes of a batch of these texts.
async fn done(fake: &FakeLitellm, texts: &[&str]) -> (Batch, Settled) {
    let llm = Llm::new(fake.config()).unwrap();
    let (names, jsonl) = lines(texts);
    let batch = created(&llm, &jsonl).await;
    let (batch, _) = ended(&llm, batch).await;
    let settled = settled(&llm, &batch, &names).await;
    (batch, settled)
}

const FIVE: [&str; 5] = [
    "Tea and water.",
    "Leaves.",
    "Cups and kettles.",
    "Milk.",
    "Sugar.",
];

#[tokio::test]
async fn a_batch_goes_from_upload_to_answers_in_any_order() {
    let fake = fake().await;
    let llm = Llm::new(fake.config()).unwrap();
    let (names, jsonl) = lines(&FIVE);
    let batch = created(&llm, &jsonl).await;
    assert!(batch.id.as_str().len() >= 256);
    assert_eq!(batch.metadata["hapax_op"], "op-1");
    assert_eq!(fake.lines_of(&fake.batches()[0]).len(), 5);
    let (batch, seen) = ended(&llm, batch).await;
    assert_eq!(
        seen,
        ["validating", "in_progress", "finalizing", "completed"]
    );
    assert_eq!((batch.counts.total, batch.counts.completed), (5, 5));

    let settled = settled(&llm, &batch, &names).await;
    let parser = Parser::new(Rules::default().topics);
    for (name, text) in names.iter().zip(FIVE) {
        let Outcome::Answered(answer) = &settled.answers[name] else {
            panic!("{name} has an answer");
        };
        let t1 = parser.answer(answer).unwrap();
        assert_eq!(t1.gist, format!("A text that begins with: {text}"));
        assert!(answer.usage.prompt_tokens > 0);
    }
    let none = (Vec::new(), Vec::new(), Vec::new());
    assert_eq!((settled.missing, settled.unknown, settled.duplicates), none);
    let counts = fake.counts();
    assert_eq!(
        (
            counts.batches_created,
            counts.lines_answered,
            fake.answers_max()
        ),
        (1, 5, 1)
    );
}

#[tokio::test]
async fn duplicates_strangers_gaps_and_broken_lines_are_told_apart() {
    let fake = fake().await;
    fake.batches_go(BatchScript {
        duplicates: 1,
        missing: 2,
        unknown: 3,
        broken: 1,
        ..BatchScript::default()
    });
    let (_, settled) = done(&fake, &FIVE).await;
    assert_eq!(settled.answers.len(), 3);
    assert_eq!(settled.missing.len(), 2);
    assert_eq!(settled.unknown.len(), 3);
    assert_eq!(settled.duplicates.len(), 1);
    assert_eq!(settled.broken.len(), 1);
    let named: BTreeSet<&String> = settled.answers.keys().chain(&settled.missing).collect();
    assert_eq!(named.len(), 5);
}

#[tokio::test]
async fn lines_fail_one_by_one_and_the_error_file_can_be_the_only_one() {
    let fake = fake().await;
    fake.when_text_has("Milk", Reply::Status(500));
    fake.when_text_has("Sugar", Reply::Null);
    fake.when_text_has("Leaves", Reply::Status(400));
    let (batch, settled) = done(&fake, &FIVE).await;
    assert_eq!((batch.counts.completed, batch.counts.failed), (3, 2));
    let fault = |place: usize| match settled.answers.values().nth(place) {
        Some(Outcome::Failed(fault)) => (fault.status, fault.is_transient()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (fault(1), fault(3)),
        ((Some(400), false), (Some(500), true))
    );
    let Some(Outcome::Answered(sugar)) = settled.answers.values().nth(4) else {
        panic!("a null is an answer");
    };
    assert_eq!(sugar.content().unwrap_err().reason, Reason::ContentNull);

    fake.batches_go(BatchScript {
        has_errors_alone: true,
        ..BatchScript::default()
    });
    let (batch, settled) = done(&fake, &FIVE).await;
    assert_eq!(
        (batch.output_file_id, batch.error_file_id.is_some()),
        (None, true)
    );
    assert_eq!(settled.answers.len(), 5);
}

#[tokio::test]
async fn a_batch_that_failed_expired_or_was_cancelled_says_so() {
    let fake = fake().await;
    for (fate, status, answers) in [
        (Fate::Failed, BatchStatus::Failed, 0),
        (Fate::Expired, BatchStatus::Expired, 2),
        (Fate::Cancelled, BatchStatus::Cancelled, 2),
    ] {
        fake.batches_go(BatchScript {
            fate,
            ..BatchScript::default()
        });
        let (batch, settled) = done(&fake, &FIVE).await;
        assert_eq!(batch.status, status);
        assert_eq!(batch.faults.len(), usize::from(fate == Fate::Failed));
        let answered = settled.answers.values();
        let answered = answered.filter(|outcome| matches!(outcome, Outcome::Answered(_)));
        assert_eq!(answered.count(), answers, "{fate:?}");
        let late = settled.answers.values().filter(|outcome| match outcome {
            Outcome::Failed(fault) => fault.status.is_none() && fault.is_transient(),
            Outcome::Answered(_) => false,
        });
        assert_eq!(late.count(), if fate == Fate::Failed { 0 } else { 3 });
    }
}

#[tokio::test]
async fn a_held_batch_waits_until_it_is_released() {
    let fake = fake().await;
    fake.batches_go(BatchScript {
        is_held: true,
        ..BatchScript::default()
    });
    let llm = Llm::new(fake.config()).unwrap();
    let batch = created(&llm, &lines(&FIVE).1).await;
    for _ in 0..3 {
        assert_eq!(
            llm.batch(&batch.id).await.unwrap().status,
            BatchStatus::Validating
        );
    }
    fake.release_batches();
    assert_eq!(ended(&llm, batch).await.0.status, BatchStatus::Completed);
}

#[tokio::test]
async fn a_batch_that_may_have_been_created_is_not_created_again_but_found() {
    let fake = fake().await;
    let config = LlmConfig {
        timeout: Duration::from_millis(400),
        ..fake.config()
    };
    let llm = Llm::new(config).unwrap();
    let file = llm.upload(file(["{}"]), "t1.jsonl").await.unwrap();
    let new = |op: &str| NewBatch::new(file.clone(), "24h", [("hapax_op", op)]).unwrap();
    for (number, (reply, was_created)) in (0..).zip([
        (Reply::CutAfter, true),
        (Reply::CutBody, true),
        (Reply::HangAfter, true),
        (Reply::Cut, false),
        (Reply::Hang, false),
        (Reply::Status(500), false),
        (Reply::Status(408), false),
        (Reply::Html, false),
    ]) {
        let op = format!("op-{number}");
        let before = fake.counts().batches_created;
        fake.next(Endpoint::CreateBatch, reply.clone());
        let error = llm.create_batch(&new(&op)).await.unwrap_err();
        assert!(
            error.may_have_happened() && error.is_transient(),
            "{reply:?}: {error:?}"
        );
        assert_eq!(
            fake.counts().batches_created,
            before + u64::from(was_created)
        );
        let page = llm.batches(None, 100).await.unwrap();
        let found = page
            .items
            .iter()
            .find(|batch| batch.metadata["hapax_op"] == op);
        assert_eq!(found.is_some(), was_created, "{reply:?}");
    }
    for reply in [
        Reply::RateLimited(0),
        Reply::Status(400),
        Reply::Status(404),
    ] {
        let before = fake.counts().batches_created;
        fake.next(Endpoint::CreateBatch, reply.clone());
        let error = llm.create_batch(&new("op-refused")).await.unwrap_err();
        assert!(!error.may_have_happened(), "{reply:?}: {error:?}");
        assert_eq!(fake.counts().batches_created, before);
    }
}

#[tokio::test]
async fn everything_but_a_new_batch_is_tried_again() {
    let fake = fake().await;
    let llm = Llm::new(fake.config()).unwrap();
    for (endpoint, reply) in [
        (Endpoint::Upload, Reply::CutAfter),
        (Endpoint::ReadBatch, Reply::Status(500)),
        (Endpoint::ListBatches, Reply::Cut),
        (Endpoint::ReadFile, Reply::CutBody),
    ] {
        fake.next(endpoint, reply);
    }
    let batch = created(&llm, &lines(&FIVE).1).await;
    assert_eq!(fake.counts().uploads, 2, "an orphan is harmless");
    llm.batch(&batch.id).await.unwrap();
    llm.batches(None, 10).await.unwrap();
    let input = batch.input_file_id.unwrap();
    assert_eq!(
        llm.content(&input).await.unwrap(),
        lines(&FIVE).1.as_bytes()
    );
    assert_eq!(fake.counts().batches_created, 1);
}

#[tokio::test]
async fn a_long_list_of_batches_is_read_page_by_page() {
    let fake = fake().await;
    let llm = Llm::new(fake.config()).unwrap();
    let file = llm.upload(file(["{}"]), "t1.jsonl").await.unwrap();
    for number in 0..7 {
        let op = [("hapax_op", number.to_string())];
        let batch = NewBatch::new(file.clone(), "24h", op).unwrap();
        llm.create_batch(&batch).await.unwrap();
    }
    let (mut after, mut ops, mut pages) = (None, Vec::new(), 0);
    loop {
        let page = llm.batches(after.as_ref(), 3).await.unwrap();
        pages += 1;
        ops.extend(
            page.items
                .iter()
                .map(|batch| batch.metadata["hapax_op"].clone()),
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((pages, ops.join("")), (3, "6543210".to_owned()));
}

#[tokio::test]
async fn a_file_over_the_limit_is_not_read_and_one_that_is_not_there_is_told() {
    let fake = fake().await;
    let config = LlmConfig {
        content_bytes_max: 100,
        ..fake.config()
    };
    let llm = Llm::new(config).unwrap();
    let small = llm
        .upload(file(["x".repeat(99).as_str()]), "a")
        .await
        .unwrap();
    let large = llm
        .upload(file(["x".repeat(100).as_str()]), "b")
        .await
        .unwrap();
    assert_eq!(llm.content(&small).await.unwrap().len(), 100);
    let error = llm.content(&large).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is larger than 100 bytes");
    let gone = llm
        .content(&FileId::new("file-gone").unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(gone, LlmError::Refused { status: 404, .. }),
        "{gone:?}"
    );
    let refused = llm
        .create_batch(
            &NewBatch::new(FileId::new("file-gone").unwrap(), "24h", [("a", "b")]).unwrap(),
        )
        .await
        .unwrap_err();
    assert!(!refused.may_have_happened());
}

#[test]
fn a_line_is_read_whatever_it_says() {
    let outcome = |line: &str| OutputLine::parse(line).unwrap().outcome;
    for (line, status, code, message) in [
        (
            r#"{"error":{"code":"batch_expired","message":"late"},"custom_id":"a","response":null}"#,
            None,
            Some("batch_expired"),
            "late",
        ),
        (
            r#"{"response":{"status_code":429,"body":{"error":{"message":"slow","code":"429"}}},"custom_id":"a"}"#,
            Some(429),
            Some("429"),
            "slow",
        ),
        (
            r#"{"response":{"body":null,"status_code":500},"error":null,"custom_id":"a"}"#,
            Some(500),
            None,
            "nothing was said",
        ),
        (
            r#"{"custom_id":"a"}"#,
            None,
            Some("no_response"),
            "nothing was said",
        ),
        (
            r#"{"custom_id":"a","response":{"status_code":200,"body":{}}}"#,
            Some(200),
            Some("bad_answer"),
            "there is no list of choices",
        ),
        (
            r#"{"custom_id":"a","response":{"status_code":"200"},"error":"odd"}"#,
            None,
            None,
            "odd",
        ),
    ] {
        let Outcome::Failed(fault) = outcome(line) else {
            panic!("{line} has no answer");
        };
        assert_eq!(
            (fault.status, fault.code.as_deref(), fault.message.as_str()),
            (status, code, message),
            "{line}"
        );
    }
    for broken in [
        "",
        "null",
        "[]",
        "{",
        "{}",
        r#"{"custom_id":7}"#,
        r#"{"custom_id":""}"#,
    ] {
        assert!(OutputLine::parse(broken).is_err(), "{broken}");
    }
    let huge = format!(r#"{{"custom_id":"{}"}}"#, "x".repeat(3 << 20));
    let refused = OutputLine::parse(&huge).unwrap_err();
    assert!(refused.shown.len() < 300, "{}", refused.why);
    let deep = format!(r#"{{"custom_id":"a","response":{}"#, "[".repeat(1 << 20));
    assert!(OutputLine::parse(&deep).is_err());
    let file = b"\xff\xfe\n\r\n{\"custom_id\":\"a\"}\r\nnonsense";
    let read: Vec<bool> = OutputLine::all(file).map(|line| line.is_ok()).collect();
    assert_eq!(read, [false, true, false]);
}

#[test]
fn an_answer_stands_before_a_failure_in_either_order() {
    let answer = r#"{"custom_id":"a","response":{"status_code":200,"body":{"choices":[]}}}"#;
    let failure = r#"{"custom_id":"a","error":{"message":"no"}}"#;
    let names = ["a".to_owned(), "a".to_owned()];
    for file in [[answer, failure], [failure, answer]] {
        let settled = settle(&names, file.iter().map(|line| OutputLine::parse(line)));
        assert!(matches!(settled.answers["a"], Outcome::Answered(_)));
        assert_eq!(settled.duplicates, ["a"]);
        assert!(settled.missing.is_empty() && settled.unknown.is_empty());
    }
}

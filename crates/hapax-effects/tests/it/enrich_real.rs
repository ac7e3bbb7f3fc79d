//! The client against a real LiteLLM with the fake behind it. It is run where there is one: HAPAX_TEST_LITELLM is its
//! base URL, HAPAX_TEST_LITELLM_KEY its master key. `./test --litellm` starts one.
//!
//! It needs the models `t1-default`, `t1-batch` and `t1-limited` on the fake of the example `fake_litellm`, `t1-dead` on a
//! port where nobody listens, and `enable_loadbalancing_on_batch_endpoints`.

use std::time::Duration;

use hapax_core::Fingerprint;
use hapax_core::entry::Schema;
use hapax_effects::enrich::{
    ChatRequest, CustomId, Llm, LlmConfig, LlmError, NewBatch, Outcome, OutputLine, Owner, Parser,
    Prompt, Reason, Retry, Rules, Text, batch_line, settle,
};

fn config() -> LlmConfig {
    let told = |name| std::env::var(name).expect("./test --litellm sets it");
    LlmConfig {
        retry: Retry::never(),
        ..LlmConfig::new(told("HAPAX_TEST_LITELLM"), told("HAPAX_TEST_LITELLM_KEY"))
    }
}

fn prompt(clean_text: &str) -> Prompt {
    let text = Text {
        clean_text,
        ..Text::default()
    };
    Prompt::new(&text, &Rules::default())
}

#[tokio::test]
#[ignore = "needs a real LiteLLM: ./test --litellm"]
async fn a_real_litellm_answers_chats_as_the_fake_does() {
    let config = config();
    let llm = Llm::new(config).unwrap();
    let parser = Parser::new(Rules::default().topics);
    let ask = |model: &str, text: &str| ChatRequest::new(model, &prompt(text));

    let answer = llm.chat(&ask("t1-default", "Tea is made of leaves.")).await;
    let answer = answer.unwrap();
    assert!(answer.usage.prompt_tokens > 0);
    assert!(parser.answer(&answer).unwrap().gist.contains("Tea is made"));
    for name in ["fence", "prose"] {
        let asked = ask("t1-default", &format!("fake-reply:{name} Tea."));
        assert!(
            parser.answer(&llm.chat(&asked).await.unwrap()).is_ok(),
            "{name}"
        );
    }
    for (name, reason) in [
        ("null", Reason::ContentNull),
        ("length", Reason::CutOff),
        ("4-keywords", Reason::TooFewKeywords),
    ] {
        let asked = ask("t1-default", &format!("fake-reply:{name} "));
        let answer = llm.chat(&asked).await;
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(parser.answer(&answer).unwrap_err().reason, reason, "{name}");
    }
    let error = llm.chat(&ask("t1-nobody", "Tea.")).await.unwrap_err();
    assert!(
        matches!(error, LlmError::Refused { status: 400, .. }),
        "{error:?}"
    );
    let error = llm.chat(&ask("t1-dead", "Tea.")).await.unwrap_err();
    assert!(
        error.is_transient() && error.http_status() >= 502,
        "{error:?}"
    );
    let error = llm
        .chat(&ask("t1-limited", "fake-reply:429 "))
        .await
        .unwrap_err();
    let LlmError::RateLimited { retry_after, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(
        retry_after.is_some_and(|after| after >= Duration::from_secs(1)),
        "{error:?}"
    );
}

#[tokio::test]
#[ignore = "needs a real LiteLLM: ./test --litellm"]
async fn a_real_litellm_refuses_a_wrong_key_without_our_saying_it() {
    let config = config();
    let wrong = LlmConfig::new(config.base_url, "sk-very-wrong-key");
    let llm = Llm::new(wrong).unwrap();
    let request = ChatRequest::new("t1-default", &prompt("Tea."));
    let error = llm.chat(&request).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error:?}");
    assert!(
        !format!("{error:?}").contains("sk-very-wrong-key"),
        "{error:?}"
    );
}

#[tokio::test]
#[ignore = "needs a real LiteLLM: ./test --litellm"]
async fn a_real_litellm_carries_a_batch_from_upload_to_answers() {
    let config = config();
    let llm = Llm::new(config).unwrap();
    let texts = [
        "Tea and water.",
        "fake-reply:500 ",
        "Leaves.",
        "fake-reply:null ",
    ];
    let (mut names, mut jsonl) = (Vec::new(), String::new());
    for (number, text) in (1..).zip(texts) {
        let hash = Fingerprint::of(text.as_bytes());
        let id = CustomId::new(Schema::Pkm, Owner::Entry(number), &hash, 1);
        jsonl.push_str(&batch_line(&id, "t1-batch", &prompt(text)));
        jsonl.push('\n');
        names.push(id.to_string());
    }
    let op = Fingerprint::of(format!("{:?}", std::time::SystemTime::now()).as_bytes()).hex();
    let file = llm
        .upload(crate::enrich_batches::file(jsonl.lines()), "t1.jsonl")
        .await
        .unwrap();
    let new = NewBatch::new(file, "24h", [("hapax_op", op.as_str())]);
    let new = new.unwrap().with_model("t1-batch");
    let created = llm.create_batch(&new).await.unwrap();
    let page = llm.batches(None, 100).await.unwrap();
    let adopted = page
        .items
        .iter()
        .find(|batch| batch.metadata.get("hapax_op") == Some(&op));
    assert_eq!(
        adopted.map(|batch| &batch.id),
        Some(&created.id),
        "{page:?}"
    );

    let mut batch = created;
    for _ in 0..20 {
        batch = llm.batch(&batch.id).await.unwrap();
        if batch.status.is_terminal() {
            break;
        }
    }
    assert_eq!(batch.status.as_str(), "completed");
    let mut files = Vec::new();
    for file in [&batch.output_file_id, &batch.error_file_id]
        .into_iter()
        .flatten()
    {
        files.push(llm.content(file).await.unwrap());
    }
    let settled = settle(&names, files.iter().flat_map(|file| OutputLine::all(file)));
    assert_eq!(settled.answers.len(), 4, "{settled:?}");
    assert!(
        settled.missing.is_empty() && settled.unknown.is_empty(),
        "{settled:?}"
    );
    let parser = Parser::new(Rules::default().topics);
    let Outcome::Answered(tea) = &settled.answers[&names[0]] else {
        panic!("{settled:?}");
    };
    assert!(parser.answer(tea).unwrap().gist.contains("Tea and water."));
    assert!(
        matches!(&settled.answers[&names[1]], Outcome::Failed(fault) if fault.status == Some(500))
    );
}

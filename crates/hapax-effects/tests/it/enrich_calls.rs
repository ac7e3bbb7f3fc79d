//! The client of LiteLLM against a fake of it: every kind of failure, what is tried again, and what never is.

use std::time::{Duration, Instant};

use hapax_effects::enrich::testing::{Endpoint, FakeLitellm, KEY, Reply};
use hapax_effects::enrich::{
    ChatRequest, FileId, Llm, LlmConfig, LlmError, Parser, Prompt, Reason, Retry, Rules, Text,
};

pub(crate) fn request(clean_text: &str) -> ChatRequest {
    let text = Text {
        clean_text,
        ..Text::default()
    };
    ChatRequest::new("t1-default", &Prompt::new(&text, &Rules::default()))
}

pub(crate) async fn fake() -> FakeLitellm {
    FakeLitellm::start().await.unwrap()
}

fn llm(fake: &FakeLitellm) -> Llm {
    Llm::new(fake.config()).unwrap()
}

/// A client that gives up after a short while and does not try again.
fn hasty(fake: &FakeLitellm) -> Llm {
    let config = LlmConfig {
        timeout: Duration::from_millis(400),
        retry: Retry::never(),
        ..fake.config()
    };
    Llm::new(config).unwrap()
}

#[tokio::test]
async fn a_question_is_sent_once_and_its_answer_can_be_read() {
    let fake = fake().await;
    let asked = request("Tea is made of leaves and water.");
    let answer = llm(&fake).chat(&asked).await.unwrap();
    let t1 = Parser::new(Rules::default().topics)
        .answer(&answer)
        .unwrap();
    assert_eq!(
        t1.gist,
        "A text that begins with: Tea is made of leaves and water."
    );
    assert_eq!(t1.keywords[..3], ["made", "leaves", "water"]);
    assert!(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0);
    assert_eq!(fake.chats(), std::slice::from_ref(&asked.body));
    assert_eq!(fake.answers_to(&asked.body), 1);
}

#[tokio::test]
async fn a_base_url_may_end_in_a_slash_or_have_no_path() {
    let fake = fake().await;
    let base = fake.base_url();
    for base_url in [format!("{base}/"), base.trim_end_matches("/v1").to_owned()] {
        let config = LlmConfig {
            base_url,
            ..fake.config()
        };
        let chat = Llm::new(config).unwrap().chat(&request("Tea.")).await;
        assert!(chat.is_ok(), "{chat:?}");
    }
}

#[tokio::test]
async fn a_refusal_that_no_retry_helps_is_told_at_once() {
    let fake = fake().await;
    for status in [307, 400, 401, 403, 404, 409, 422] {
        fake.next(Endpoint::Chat, Reply::Status(status));
        let before = fake.counts().chat;
        let error = llm(&fake).chat(&request("Tea.")).await.unwrap_err();
        let code = Some("invalid_request_error".to_owned());
        let said = format!("the fake says {status}");
        let is_key = [401, 403].contains(&status);
        let message = if is_key {
            let url = fake.config().base_url;
            format!("LITELLM_MASTER_KEY was refused by {url}: {said}")
        } else {
            said
        };
        assert_eq!(error.is_unauthorized(), is_key);
        assert_eq!(
            error,
            LlmError::Refused {
                status,
                code,
                message
            }
        );
        assert!(!error.is_transient());
        assert_eq!(error.http_status(), 502);
        assert_eq!(fake.counts().chat, before + 1, "{status}");
    }
}

#[tokio::test]
async fn a_refusal_that_passes_is_tried_again_up_to_the_limit() {
    let fake = fake().await;
    fake.when_text_has("tea", Reply::RateLimited(0));
    for status in [408, 500, 502, 503, 504] {
        fake.when_text_has(&format!("[{status}]"), Reply::Status(status));
    }
    for (text, status, answered) in [
        ("[408]", 408, 502),
        ("[500]", 500, 502),
        ("[502]", 502, 502),
        ("[503]", 503, 503),
        ("[504]", 504, 502),
        ("tea", 429, 429),
    ] {
        let before = fake.counts().chat;
        let error = llm(&fake).chat(&request(text)).await.unwrap_err();
        match &error {
            LlmError::Refused { status: found, .. } => assert_eq!(*found, status),
            LlmError::RateLimited { retry_after, .. } => {
                assert_eq!((status, *retry_after), (429, Some(Duration::ZERO)));
            }
            other => panic!("{other:?}"),
        }
        assert!(error.is_transient());
        assert_eq!(error.http_status(), answered);
        assert_eq!(fake.counts().chat, before + 4, "{text}");
    }
    assert_eq!(fake.counts().chat_answered, 0);
}

#[tokio::test]
async fn a_call_goes_through_once_the_fault_has_passed() {
    let fake = fake().await;
    for faults in [
        [Reply::Status(503), Reply::Cut, Reply::RateLimited(0)],
        [Reply::CutBody, Reply::CutAfter, Reply::Status(408)],
    ] {
        let before = fake.counts().chat;
        for fault in faults {
            fake.next(Endpoint::Chat, fault);
        }
        llm(&fake).chat(&request("Tea.")).await.unwrap();
        assert_eq!(fake.counts().chat, before + 4);
    }
}

#[tokio::test]
async fn the_provider_is_left_alone_for_as_long_as_it_asks() {
    let fake = fake().await;
    fake.next(Endpoint::Chat, Reply::RateLimited(1));
    let began = Instant::now();
    llm(&fake).chat(&request("Tea.")).await.unwrap();
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(fake.counts().chat, 2);
}

#[tokio::test]
async fn a_wish_beyond_all_patience_ends_the_call_and_is_told() {
    let fake = fake().await;
    fake.next(Endpoint::Chat, Reply::RateLimited(31));
    let error = llm(&fake).chat(&request("Tea.")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(31)));
    assert_eq!(
        error.to_string(),
        "the provider wants to be left alone for 31 s: slow down"
    );
    assert_eq!(fake.counts().chat, 1);

    let config = LlmConfig {
        retry: Retry {
            patience: Duration::from_secs(4),
            ..Retry::default()
        },
        ..fake.config()
    };
    fake.next(Endpoint::Chat, Reply::Cooldown);
    let error = Llm::new(config)
        .unwrap()
        .chat(&request("Tea."))
        .await
        .unwrap_err();
    let LlmError::RateLimited {
        retry_after, code, ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(retry_after, Some(Duration::from_secs(5)));
    assert_eq!(code.as_deref(), Some("all_deployments_in_cooldown"));
}

#[tokio::test]
async fn no_answer_and_half_an_answer_may_have_happened() {
    let fake = fake().await;
    for fault in [
        Reply::Hang,
        Reply::HangAfter,
        Reply::Cut,
        Reply::CutAfter,
        Reply::CutBody,
    ] {
        fake.next(Endpoint::Chat, fault.clone());
        let error = hasty(&fake).chat(&request("Tea.")).await.unwrap_err();
        assert!(
            matches!(error, LlmError::TimedOut { sent: true, .. }),
            "{fault:?}: {error:?}"
        );
        assert!(error.is_transient() && error.may_have_happened());
        assert_eq!(error.http_status(), 503);
    }
}

#[tokio::test]
async fn a_provider_that_is_away_was_not_asked_and_is_found_again_when_it_is_back() {
    let fake = fake().await;
    let llm = llm(&fake);
    fake.down().await.unwrap();
    let error = llm.chat(&request("Tea.")).await.unwrap_err();
    assert!(matches!(error, LlmError::Unreachable { .. }), "{error:?}");
    assert!(error.is_transient() && !error.may_have_happened());
    assert_eq!((error.http_status(), fake.counts().chat), (503, 0));
    fake.up().await.unwrap();
    llm.chat(&request("Tea.")).await.unwrap();
    assert_eq!(fake.counts().chat, 1);
}

#[tokio::test]
async fn an_answer_that_is_none_is_not_paid_for_again() {
    let fake = fake().await;
    for reply in [
        Reply::Html,
        Reply::Raw(200, String::new()),
        Reply::Raw(200, "{}".to_owned()),
        Reply::Raw(200, r#"{"error":{"message":"no"}}"#.to_owned()),
        Reply::Raw(204, String::new()),
    ] {
        let before = fake.counts().chat;
        fake.next(Endpoint::Chat, reply.clone());
        let error = llm(&fake).chat(&request("Tea.")).await.unwrap_err();
        assert!(
            matches!(error, LlmError::BadAnswer { .. }),
            "{reply:?}: {error:?}"
        );
        assert_eq!((fake.counts().chat, error.http_status()), (before + 1, 502));
    }
    let huge = format!(r#"{{"choices":[],"x":"{}"}}"#, "x".repeat(1 << 20));
    fake.next(Endpoint::Chat, Reply::Raw(200, huge));
    let error = llm(&fake).chat(&request("Tea.")).await.unwrap_err();
    assert!(
        matches!(error, LlmError::TooLarge { sent: true, .. }),
        "{error:?}"
    );
    assert!(!error.is_transient());
}

#[tokio::test]
async fn every_bad_answer_of_a_model_comes_out_with_its_own_reason() {
    let fake = fake().await;
    let parser = Parser::new(Rules::default().topics);
    for (reply, reason) in [
        (Reply::FourKeywords, Reason::TooFewKeywords),
        (Reply::WrongType, Reason::WrongType),
        (Reply::Null, Reason::ContentNull),
        (Reply::NoChoices, Reason::NoChoices),
        (Reply::Length, Reason::CutOff),
        (Reply::Declined, Reason::Declined),
        (Reply::Text("{".to_owned()), Reason::BadJson),
    ] {
        fake.next(Endpoint::Chat, reply.clone());
        let answer = llm(&fake).chat(&request("Tea.")).await.unwrap();
        let error = parser.answer(&answer).unwrap_err();
        assert_eq!(error.reason, reason, "{reply:?}");
    }
    let marked = llm(&fake)
        .chat(&request("Tea. fake-reply:length, please"))
        .await;
    assert_eq!(
        parser.answer(&marked.unwrap()).unwrap_err().reason,
        Reason::CutOff
    );
}

#[tokio::test]
async fn a_wrong_key_is_told_for_what_it_is() {
    let fake = fake().await;
    let config = LlmConfig::new(fake.base_url(), "sk-very-wrong");
    let error = Llm::new(config)
        .unwrap()
        .chat(&request("Tea."))
        .await
        .unwrap_err();
    assert!(error.is_unauthorized(), "{error:?}");
    assert!(matches!(error, LlmError::Refused { status: 400, .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "LITELLM_MASTER_KEY was refused by {}: No connected db. (400)",
            fake.base_url()
        )
    );
    assert_eq!((fake.counts().refused_keys, fake.counts().chat), (1, 0));
}

#[tokio::test]
async fn without_a_url_and_a_key_there_is_no_client() {
    for (base_url, key, what) in [
        ("", KEY, "OPENAI_BASE_URL is not set"),
        ("http://127.0.0.1:1/v1", "", "LITELLM_MASTER_KEY is not set"),
        (
            "http://127.0.0.1:1/v1",
            "a\nb",
            "LITELLM_MASTER_KEY cannot be sent in a header",
        ),
        (
            "ftp://x/v1",
            KEY,
            "OPENAI_BASE_URL must begin with http:// or https://",
        ),
    ] {
        let error = Llm::new(LlmConfig::new(base_url, key)).unwrap_err();
        assert_eq!(error.to_string(), what);
        assert_eq!(
            (error.as_str(), error.http_status()),
            ("not_configured", 503)
        );
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn an_id_leads_nowhere_but_to_its_file() {
    let fake = fake().await;
    for id in ["a/../../batches", "x?y=1#z", "..", "@evil", "//evil"] {
        assert!(FileId::new(id).is_err(), "{id}");
    }
    for id in ["%2e%2e", "%2F%2Fevil", "file id", "日本", ":1"] {
        let error = llm(&fake)
            .content(&FileId::new(id).unwrap())
            .await
            .unwrap_err();
        let LlmError::Refused {
            status, message, ..
        } = error
        else {
            panic!("{error:?}");
        };
        assert_eq!((status, message.as_str()), (404, "no such file"), "{id}");
    }
    assert_eq!(fake.counts().batch_lists, 0);
}

#[tokio::test]
async fn the_fake_asks_for_a_key_and_for_the_purpose_of_a_file() {
    let fake = fake().await;
    // Who makes a client of ours installs what TLS needs.
    Llm::new(fake.config()).unwrap();
    let http = reqwest::Client::new();
    let url = |path: &str| format!("{}{path}", fake.base_url());
    let bare = http.get(url("/batches")).send().await.unwrap();
    assert_eq!(bare.status(), 401);
    let form = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n{}\r\n--b--\r\n";
    let file = http
        .post(url("/files"))
        .bearer_auth(KEY)
        .header("content-type", "multipart/form-data; boundary=b")
        .body(form);
    let refused = file.send().await.unwrap();
    assert_eq!(refused.status(), 422);
    assert!(refused.text().await.unwrap().starts_with(r#"{"detail":[{"#));
}

#[tokio::test]
async fn the_fake_can_be_told_over_http_what_comes_next() {
    let fake = fake().await;
    // Who makes a client of ours installs what TLS needs.
    Llm::new(fake.config()).unwrap();
    let http = reqwest::Client::new();
    let base = fake.base_url();
    let base = base.trim_end_matches("/v1");
    let tell = |path: &str, body: &str| {
        let request = http
            .post(format!("{base}/fake/{path}"))
            .body(body.to_owned());
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(
        tell("next", r#"{"endpoint":"chat","reply":"503"}"#).await,
        200
    );
    assert_eq!(
        tell("next", r#"{"endpoint":"tea","reply":"503"}"#).await,
        400
    );
    assert_eq!(tell("batches", r#"{"fate":"expired"}"#).await, 200);
    assert_eq!(tell("batches", r#"{"fate":"tea"}"#).await, 400);
    llm(&fake).chat(&request("Tea.")).await.unwrap();
    let counts = http
        .get(format!("{base}/fake/counts"))
        .send()
        .await
        .unwrap();
    let counts: serde_json::Value = counts.json().await.unwrap();
    assert_eq!(
        (&counts["chat"], &counts["answers_max"]),
        (&2.into(), &1.into())
    );
}

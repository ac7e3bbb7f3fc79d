//! Secrets that are planted wherever one can stand: none is found afterwards in the database, its log of writes, the log
//! at its wordiest, the data folder, or what the program shows. A body is what a caller stores; it is not looked for.

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use crate::fixture::{Server, path, succeed};
use crate::http::{self, Answer};
use crate::proxy::upstream::Upstream;

/// Every place has its own, so that what is found says where it came from.
const TOKEN: &str = "planted-owner-token-0123456789";
const WRONG: &str = "planted-wrong-token-0123456789";
const COOKIE: &str = "planted-cookie-0123456789";
const PROXY: &str = "planted-proxy-authorization-0123456789";
const API_KEY: &str = "planted-x-api-key-0123456789";
const QUERY: &str = "planted-query-0123456789";
const LITELLM: &str = "planted-litellm-key-0123456789";
const GATEWAY: &str = "planted-gateway-token-0123456789";
const TELEGRAM: &str = "planted-telegram-secret-0123456789";
const SESSION: &str = "planted-session-secret-0123456789-0123456789";
/// What the upstream of the tests sets.
const SET_COOKIE: &str = "session=secret";

/// The headers that carry secrets, beside an Authorization.
const HEADERS: [(&str, &str); 3] = [
    ("cookie", "theme=dark; sid=planted-cookie-0123456789"),
    (
        "proxy-authorization",
        "Basic planted-proxy-authorization-0123456789",
    ),
    ("x-api-key", "planted-x-api-key-0123456789"),
];

/// The secret as it is, and as it would stand within base64 or in hex.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![
        secret.as_bytes().to_vec(),
        HEXLOWER.encode(secret.as_bytes()).into_bytes(),
    ];
    for before in 0..3 {
        let padded = ["\0".repeat(before).as_bytes(), secret.as_bytes()].concat();
        let text = BASE64.encode(&padded);
        // What stands beside it changes the characters at both ends.
        forms.push(text.as_bytes()[4..text.len() - 4].to_vec());
    }
    forms
}

fn assert_absent(bytes: &[u8], secrets: &[&str], place: &str) {
    for secret in secrets {
        for form in forms(secret) {
            let is_there = bytes.windows(form.len()).any(|part| part == form);
            let form = String::from_utf8_lossy(&form);
            assert!(!is_there, "{secret} is in {place} as {form}");
        }
    }
}

/// Looks through every file below.
fn search(folder: &Path, secrets: &[&str]) -> usize {
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        if file.is_dir() {
            files += search(&file, secrets);
        } else if !file.ends_with("hapax.toml") {
            assert_absent(&std::fs::read(&file).unwrap(), secrets, path(&file));
            files += 1;
        }
    }
    files
}

#[test]
fn a_search_finds_a_secret_in_every_form() {
    for form in forms(TOKEN) {
        let around = [b"x".as_slice(), &form, b"y"].concat();
        let found = std::panic::catch_unwind(|| assert_absent(&around, &[TOKEN], "here"));
        assert!(found.is_err());
    }
    let basic = BASE64.encode(format!("user:{TOKEN}").as_bytes());
    let found = std::panic::catch_unwind(|| assert_absent(basic.as_bytes(), &[TOKEN], "here"));
    assert!(found.is_err(), "{basic}");
}

fn noisy(command: &mut Command) -> &mut Command {
    command.env("HAPAX_LOG", "trace")
}

/// A server whose every secret is planted, with a gateway and a model that answer nonsense.
fn server(upstream: &Upstream) -> Server {
    Server::start_with(|command| {
        noisy(command)
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_SESSION_SECRET", SESSION)
            .env("HAPAX_TELEGRAM_SECRET", TELEGRAM)
            .env("LITELLM_MASTER_KEY", LITELLM)
            .env("OPENAI_BASE_URL", upstream.url())
            .env("EXECUTE_ACTIONS", "true")
            .env("GATEWAY_BASE_URL", upstream.url())
            .env("GATEWAY_BEARER_TOKEN", GATEWAY);
    })
}

fn ask(server: &Server, method: &str, target: &str, token: &str, more: &[(&str, &str)]) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [&HEADERS[..], &[("authorization", &bearer)], more].concat();
    let body = if method == "POST" {
        &b"{\"a\":1}"[..]
    } else {
        b""
    };
    server.send(method, target, &headers, body)
}

/// Requests under keys, and others: run, replayed, refused for another query, and refused at the door.
fn ask_for_much(server: &Server) {
    let query = format!("?token={QUERY}");
    for key in ["one", "one", "two"] {
        let key = [("idempotency-key", key)];
        let echoed = ask(server, "POST", "/v1/echo", TOKEN, &key);
        assert_eq!(echoed.status, 200, "{}", echoed.text());
    }
    ask(
        server,
        "POST",
        &format!("/v1/echo{query}"),
        TOKEN,
        &[("idempotency-key", "one")],
    );
    // A key of its own: what was asked is recorded, without the value of a telling name.
    let recorded = ask(
        server,
        "POST",
        &format!("/v1/echo{query}&page=7"),
        TOKEN,
        &[("idempotency-key", "three")],
    );
    assert_eq!(recorded.status, 200, "{}", recorded.text());
    let listed = server.bearing(TOKEN, "GET", "/v1/keys?q=three", "").json();
    assert_eq!(listed["items"][0]["path"], "/v1/echo?token=***&page=7");
    for path in ["/v1/keys", "/v1/nothing", "/metrics", "/health"] {
        ask(server, "GET", &format!("{path}{query}"), TOKEN, &[]);
        ask(server, "GET", &format!("{path}{query}"), WRONG, &[]);
    }
}

/// Both sides of a call that goes out: what is sent, and what is said of an answer that makes no sense.
fn call_out(server: &Server, upstream: &Upstream) {
    let task = json!({"kind": "intent", "intent_type": "create_task", "source": "s", "fields": {"title": "t"}, "confidence": 0.9});
    server.bearing(TOKEN, "POST", "/v1/intents", &task.to_string());
    server.bearing(
        TOKEN,
        "POST",
        "/enrich/t1",
        r#"{"clean_text":"tea is made of leaves"}"#,
    );
    for (name, secret) in [("gateway", GATEWAY), ("model", LITELLM)] {
        let mut sent = upstream.calls().into_iter();
        let sent = sent.any(|call| {
            call.header("authorization")
                .is_some_and(|value| value.contains(secret))
        });
        assert!(sent, "the {name} was called with its secret");
    }
}

#[test]
fn a_server_keeps_and_shows_none_of_the_secrets_it_is_given() {
    let upstream = Upstream::start();
    let server = server(&upstream);
    ask_for_much(&server);
    call_out(&server, &upstream);
    let telegram = [("x-telegram-bot-api-secret-token", TELEGRAM)];
    server.send("POST", "/ingest/telegram/update", &telegram, b"{}");
    let session = server.send(
        "POST",
        "/session",
        &[],
        json!({"token": TOKEN}).to_string().as_bytes(),
    );
    let cookie = session
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let mac = cookie.rsplit('.').next().unwrap().to_owned();
    server.send("GET", "/v1/keys", &[("cookie", &cookie)], b"");
    let secrets = [
        TOKEN, WRONG, COOKIE, PROXY, API_KEY, LITELLM, GATEWAY, TELEGRAM, SESSION, &mac, QUERY,
    ];
    for shown in [
        "/v1/keys",
        "/v1/audit",
        "/v1/settings",
        "/config",
        "/metrics",
        "/v1/receipts",
        "/v1/jobs",
        "/health",
    ] {
        let answer = server.bearing(TOKEN, "GET", shown, "");
        assert_eq!(answer.status, 200, "{shown}");
        assert_absent(&answer.body, &secrets, shown);
    }
    let data = server.data();
    for command in [["keys", "list"], ["jobs", "list"], ["token", "list"]] {
        let said = succeed(&[&command[..], &["--data", path(&data)]].concat());
        assert_absent(said.as_bytes(), &secrets, &command.join(" "));
    }
    assert!(
        data.join("hapax.db-wal").exists(),
        "it is looked at while it is full"
    );
    assert!(server.log().contains("TRACE"), "the log is at its wordiest");
    let files = search(data.parent().unwrap(), &secrets);
    assert!(files >= 3, "{files} files");
    let (_, rest, folder) = server.stop();
    assert_absent(rest.as_bytes(), &secrets, "what it printed");
    search(folder.path(), &secrets);
}

#[test]
fn a_proxy_keeps_and_shows_none_of_the_secrets_that_pass_through_it() {
    let upstream = Upstream::start();
    let proxy = Server::proxy_in(tempfile::tempdir().unwrap(), |command| {
        noisy(command).args(["--upstream", &upstream.url()]);
    });
    let bearer = format!("Bearer {TOKEN}");
    let send = |target: &str, key: &str, body: &[u8]| {
        let own = [("authorization", bearer.as_str()), ("idempotency-key", key)];
        let headers = [&HEADERS[..], &own[..]].concat();
        http::request(proxy.address, "POST", target, &headers, body)
    };
    let first = send("/cookie", "k", b"{\"a\":1}");
    assert!(first.header("set-cookie").unwrap().contains(SET_COOKIE));
    let replay = send("/cookie", "k", b"{\"a\":1}");
    assert_eq!(replay.header("idempotency-replayed"), Some("true"));
    assert_eq!(replay.header("set-cookie"), None);
    assert_eq!(send("/cookie", "k", b"{\"a\":2}").status, 409);
    send("/break", "broken", b"{}");
    send("/s500", "failed", b"{}");
    let call = &upstream.calls()[0];
    assert_eq!(
        call.header("authorization"),
        Some(bearer.as_str()),
        "it goes on to the service"
    );
    assert_eq!(
        call.header("proxy-authorization"),
        None,
        "it was for the proxy"
    );
    let secrets = [TOKEN, COOKIE, PROXY, API_KEY, SET_COOKIE];
    assert!(proxy.log().contains("TRACE"), "the log is at its wordiest");
    let data = proxy.data();
    let said = succeed(&["keys", "list", "--json", "--data", path(&data)]);
    assert!(said.contains("\"k\""), "{said}");
    assert_absent(said.as_bytes(), &secrets, "keys list");
    let files = search(data.parent().unwrap(), &secrets);
    assert!(files >= 3, "{files} files");
    let (_, _, folder) = proxy.stop();
    search(folder.path(), &secrets);
}

#[tokio::test]
async fn headers_that_come_over_http2_are_not_logged_either() {
    let server = server(&Upstream::start());
    let stream = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut request = hyper::Request::post("http://h.example/v1/echo")
        .header("authorization", format!("Bearer {TOKEN}"));
    for (name, value) in HEADERS {
        request = request.header(name, value);
    }
    let body = Full::new(Bytes::from_static(b"{}"));
    let answer = client.send_request(request.body(body).unwrap()).await;
    assert_eq!(answer.unwrap().status(), hyper::StatusCode::OK);
    let log = server.log();
    assert!(log.contains("h2::"), "frames are logged");
    assert_absent(log.as_bytes(), &[TOKEN, COOKIE, PROXY, API_KEY], "the log");
}

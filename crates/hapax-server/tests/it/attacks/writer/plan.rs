//! A plan that a writer forges: it leads the gateway's token nowhere.

use serde_json::{Value, json};

use crate::both::{Store, on_both_stores};
use crate::fixture::Server;
use crate::http::Answer;
use crate::intents::gateway::Gateway;
use crate::intents::{arguments, token_of};

const DEFAULT: &str = "00000000-0000-0000-0000-000000000000";
const SECRET: &str = "gateway-secret";

/// A writer at a server with this gateway.
struct Writer {
    server: Server,
    token: String,
}

impl Writer {
    fn at(store: Store, base: &str) -> Self {
        let store = arguments(store);
        let server = Server::start_with(|command| {
            command
                .args(&store)
                .env("EXECUTE_ACTIONS", "true")
                .env("GATEWAY_BASE_URL", base)
                .env("GATEWAY_BEARER_TOKEN", SECRET)
                .env("GATEWAY_TIMEOUT_SECONDS", "2");
        });
        let token = token_of(&server, &store, DEFAULT);
        Self { server, token }
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.server
            .bearing(&self.token, "POST", path, &body.to_string())
    }

    /// Sends a packet that brings a question, forges the plan that follows its answer, answers, and tells how the forging
    /// was answered and what the receipt shows in the end.
    fn forges(&self, path: &str) -> (Answer, String) {
        let packet = json!({
            "kind": "intent", "intent_type": "create_task", "source": "shell",
            "fields": {"title": "Call Ada", "due": "whenever it suits"},
        });
        let asked = self.post("/v1/intents", &packet).json();
        assert_eq!(asked["status"], "needs_clarification", "{asked}");
        let forged =
            json!({"job_id": asked["receipt_id"], "kind": "PLAN", "context": {"visit": 2}});
        let begun = self.post("/v1/ops/begin", &forged);
        if begun.status == 200 {
            let op = begun.json();
            let action =
                json!({"step": 1, "action": "create_task", "path": path, "payload": {"task": {}}});
            let plan = json!({"outcome": "actions", "actions": [action]});
            let result = json!({"plan": plan, "hash": "0", "execute": true});
            let complete = format!("/v1/ops/{}/complete", op["op_key"].as_str().unwrap());
            self.post(&complete, &json!({"token": op["token"], "result": result}));
        }
        let question = asked["clarification"]["id"].as_str().unwrap();
        let answer = format!("/v1/clarifications/{question}/answer");
        let shown = self.post(&answer, &json!({"answer_text": "2026-12-24"}));
        (begun, shown.text())
    }
}

/// A plan whose action has this path, where EVIL is the address of a listener of the attacker. The gateway is `beneath` its
/// host.
fn leads_nowhere(store: Store, beneath: &str, path: &str) {
    let (gateway, evil) = (Gateway::start(&[]), Gateway::start(&[]));
    let base = format!("http://{}{beneath}", gateway.address);
    let writer = Writer::at(store, &base);

    let (begun, shown) = writer.forges(&path.replace("EVIL", &evil.address.to_string()));

    let led: Vec<String> = evil.calls().into_iter().map(|call| call.head).collect();
    assert!(led.is_empty(), "it led there: {led:?}; shown is {shown}");
    let paths: Vec<String> = gateway.calls().into_iter().map(|call| call.path).collect();
    let expected = format!("{beneath}/v1/notion/tasks/create");
    assert_eq!(paths, [expected], "shown is {shown}");
    assert_eq!(begun.status, 403, "{}", begun.text());
    let refused = begun.json()["error"].clone();
    assert_eq!(refused["code"], "forbidden");
    assert_eq!(refused["details"]["reason"], "job_of_the_program");
    assert!(shown.contains("\"executed\""), "it goes on: {shown}");
}

fn a_forged_user_name_leads_the_gateways_token_nowhere(store: Store) {
    leads_nowhere(store, "", "@EVIL/x");
}

fn a_forged_password_leads_the_gateways_token_nowhere(store: Store) {
    leads_nowhere(store, "", ":1@EVIL/x");
}

fn a_forged_host_leads_the_gateways_token_nowhere(store: Store) {
    leads_nowhere(store, "", "//EVIL/x");
}

fn a_forged_way_up_leads_the_gateways_token_nowhere(store: Store) {
    leads_nowhere(store, "/notion", "/../../x");
}

on_both_stores!(
    a_forged_user_name_leads_the_gateways_token_nowhere,
    a_forged_password_leads_the_gateways_token_nowhere,
    a_forged_host_leads_the_gateways_token_nowhere,
    a_forged_way_up_leads_the_gateways_token_nowhere,
);

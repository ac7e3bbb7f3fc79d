//! Plain values planted in a database whose values are sealed, by somebody who has the database and not HAPAX_KEK.

use std::path::Path;
use std::process::Command;

use hapax_store::sqlite::rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::both::{Store, claim, completed, on_both_stores};
use crate::fixture::{Server, hapax, path};

const KEK: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const PLANTED: &str = "planted-by-an-attacker";

/// A database, and a server on it that may be stopped and started.
struct Place {
    folder: TempDir,
    url: Option<String>,
}

impl Place {
    fn new(store: Store) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            url: match store {
                Store::Sqlite => None,
                Store::Postgres => Some(crate::postgres::database()),
            },
        }
    }

    /// Where the commands find it.
    fn store(&self) -> Vec<String> {
        let url = self.url.iter();
        url.flat_map(|url| ["--database".to_owned(), url.clone()])
            .collect()
    }

    /// What happens while a server runs on it, and the log that it wrote.
    fn served(self, kek: Option<&str>, run: impl FnOnce(&Server)) -> Self {
        let (store, url) = (self.store(), self.url);
        let server = Server::start_in(self.folder, |command| {
            command.arg("--no-worker").args(&store);
            if let Some(kek) = kek {
                command.env("HAPAX_KEK", kek);
            }
        });
        run(&server);
        let (code, _, folder) = server.stop();
        assert_eq!(code, Some(0));
        Self { folder, url }
    }

    fn renew(&self) -> Value {
        let data = self.folder.path().join("data");
        let output = hapax()
            .args(["vault", "renew", "--tenant", "default", "--json"])
            .args(["--data", path(&data)])
            .args(self.store())
            .env("HAPAX_KEK", KEK)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A statement past the program.
    fn attack(&self, statement: &str) {
        match &self.url {
            None => attack_file(&self.folder.path().join("data/hapax.db"), statement),
            Some(url) => {
                let output = Command::new("psql")
                    .args([url, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statement])
                    .output()
                    .expect("psql is installed");
                assert!(output.status.success(), "{statement}: {output:?}");
            }
        }
    }

    /// These bytes in a statement.
    fn bytes(&self, bytes: &[u8]) -> String {
        let hex = data_encoding::HEXLOWER.encode(bytes);
        match self.url {
            None => format!("x'{hex}'"),
            Some(_) => format!("'\\x{hex}'"),
        }
    }

    /// Plants an answer, a result of a job's operation and a payload of a snapshot, all of them plain.
    fn plant(&self) {
        let body = [&[0], json!({"paid": PLANTED}).to_string().as_bytes()].concat();
        let body = self.bytes(&body);
        self.attack(&format!(
            "UPDATE idempotency_keys SET response_body = {body} WHERE state = 'settled'"
        ));
        let result = json!({"did": PLANTED});
        self.attack(&format!("UPDATE op SET result = '{result}'"));
        let course = json!({"course": {"id": "c", "name": PLANTED}});
        let payload = match self.url {
            None => format!("UPDATE snapshot_payload SET payload = '{course}'"),
            Some(_) => format!("UPDATE snapshot SET payload = '{course}'"),
        };
        self.attack(&payload);
    }
}

fn attack_file(file: &Path, statement: &str) {
    let connection = Connection::open(file).unwrap();
    connection.execute_batch(statement).unwrap();
}

fn request() -> Value {
    json!({"key": "k", "method": "POST", "path": "/payments", "body": {"amount": 10}})
}

fn job(server: &Server) -> String {
    let plan = json!({"kind": "probe", "work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/a",
                      "payload": {"order": 7}});
    let planned = server.owner("POST", "/v1/jobs", &plan.to_string());
    assert!(planned.status < 300, "{}", planned.text());
    planned.json()["job_id"].as_str().unwrap().to_owned()
}

fn begin(server: &Server, job: &str, leased: &Value) -> crate::http::Answer {
    let begin = json!({"job_id": job, "kind": "STEP", "op_key": "step-of-the-test", "epoch": leased["epoch"],
                       "owner": "tester"});
    server.owner("POST", "/v1/ops/begin", &begin.to_string())
}

/// A settled key, an operation with its result and a snapshot. Answers the job and its lease.
fn fill(server: &Server) -> (String, Value) {
    completed(server, &request(), &json!({"paid": "truly"}));
    let job = job(server);
    let lease = json!({"owner": "tester", "ttl_s": 3600, "kinds": ["probe"]});
    let leased = server.owner("POST", "/v1/jobs/lease", &lease.to_string());
    let leased = leased.json()["jobs"][0].clone();
    let begun = begin(server, &job, &leased);
    assert_eq!(begun.json()["action"], "execute", "{}", begun.text());
    let complete = json!({"token": begun.json()["token"], "result": {"did": "truly"},
                          "owner": "tester", "epoch": leased["epoch"]});
    let done = server.owner(
        "POST",
        "/v1/ops/step-of-the-test/complete",
        &complete.to_string(),
    );
    assert_eq!(done.status, 200, "{}", done.text());
    let course = json!({"course": {"id": "c", "name": "truly"}});
    let put = server.owner("POST", "/v1/courses/ingest", &course.to_string());
    assert_eq!(put.status, 200, "{}", put.text());
    (job, leased)
}

/// All of it reads as it was written.
fn reads(server: &Server, job: &str, leased: &Value) {
    let replay = claim(server, &request());
    assert_eq!(
        replay["response"]["body"],
        json!({"paid": "truly"}),
        "{replay}"
    );
    let begun = begin(server, job, leased);
    assert_eq!(
        begun.json()["result"],
        json!({"did": "truly"}),
        "{}",
        begun.text()
    );
    let planned = server.owner("GET", &format!("/v1/jobs/{job}"), "");
    assert_eq!(
        planned.json()["payload"],
        json!({"order": 7}),
        "{}",
        planned.text()
    );
    let course = server.owner("GET", "/v1/courses/c", "");
    assert!(course.text().contains("truly"), "{}", course.text());
}

/// None of it is read, replayed or run again, and the metrics tell.
fn refuses(server: &Server, job: &str, leased: &Value) {
    let answers = [
        server.owner("POST", "/v1/keys/claim", &request().to_string()),
        begin(server, job, leased),
        server.owner("GET", &format!("/v1/jobs/{job}"), ""),
        server.owner("GET", "/v1/courses/c", ""),
        server.owner("GET", "/v1/keys", ""),
    ];
    for answer in answers {
        assert_eq!(answer.status, 500, "{}", answer.text());
        assert!(!answer.text().contains(PLANTED), "{}", answer.text());
    }
    let metrics = server.send("GET", "/metrics", &[], b"").text();
    let counted = metrics
        .lines()
        .find_map(|line| line.strip_prefix("hapax_vault_unsealed_total "));
    assert!(
        counted.is_some_and(|count| count.trim() != "0"),
        "{metrics}"
    );
    assert!(server.log().contains("is not sealed"), "the log says why");
}

fn what_is_planted_beside_sealed_values_is_never_taken_as_recorded(store: Store) {
    let mut filled = None;
    let place = Place::new(store).served(Some(KEK), |server| filled = Some(fill(server)));
    let (job, leased) = filled.unwrap();
    let place = place.served(Some(KEK), |server| reads(server, &job, &leased));
    place.plant();
    place.served(Some(KEK), |server| refuses(server, &job, &leased));
}

fn what_was_stored_before_the_key_is_sealed_by_a_renewal_and_refused_from_then_on(store: Store) {
    let mut filled = None;
    let place = Place::new(store).served(None, |server| filled = Some(fill(server)));
    let (job, leased) = filled.unwrap();
    let place = place.served(Some(KEK), |server| reads(server, &job, &leased));
    let renewed = place.renew();
    assert!(
        renewed["sealed"].as_u64().is_some_and(|rows| rows >= 3),
        "{renewed}"
    );
    assert_eq!(place.renew()["sealed"], 0);
    let place = place.served(Some(KEK), |server| reads(server, &job, &leased));
    place.plant();
    place.served(Some(KEK), |server| refuses(server, &job, &leased));
}

fn that_everything_is_sealed_is_not_forgotten_with_the_rows_that_say_so(store: Store) {
    let mut filled = None;
    let place = Place::new(store);
    let more = place.store();
    let place = place.served(Some(KEK), |server| {
        filled = Some(fill(server));
        // Another tenant, whose keys the attacker leaves alone.
        let token = token_of(server, &more, "00000000-0000-0000-0000-00000000000b");
        let claim = request().to_string();
        let answer = server.bearing(&token, "POST", "/v1/keys/claim", &claim);
        assert_eq!(answer.status, 200, "{}", answer.text());
    });
    let (job, leased) = filled.unwrap();
    place.plant();
    let nil = match place.url {
        None => place.bytes(&[0; 16]),
        Some(_) => "'00000000-0000-0000-0000-000000000000'".to_owned(),
    };
    place.attack(&format!("DELETE FROM tenant_key WHERE tenant_id = {nil}"));
    place.served(Some(KEK), |server| {
        let answers = [
            server.owner("POST", "/v1/keys/claim", &request().to_string()),
            begin(server, &job, &leased),
            server.owner("GET", "/v1/courses/c", ""),
        ];
        for answer in answers {
            assert_eq!(answer.status, 500, "{}", answer.text());
            assert!(!answer.text().contains(PLANTED), "{}", answer.text());
        }
    });
}

/// A token of another tenant, made beside the server.
fn token_of(server: &Server, store: &[String], tenant: &str) -> String {
    let data = server.data();
    let output = hapax()
        .args([
            "token", "create", "--tenant", tenant, "--role", "owner", "--json",
        ])
        .args(["--data", path(&data)])
        .args(store)
        .env("HAPAX_KEK", KEK)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

on_both_stores!(
    what_is_planted_beside_sealed_values_is_never_taken_as_recorded,
    what_was_stored_before_the_key_is_sealed_by_a_renewal_and_refused_from_then_on,
    that_everything_is_sealed_is_not_forgotten_with_the_rows_that_say_so,
);

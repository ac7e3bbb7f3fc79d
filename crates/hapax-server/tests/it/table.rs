//! CONTRACT's table of behaviour, row by row: one list of cases, three ways in, two stores.

mod layer;
mod proxy;
mod remote;
mod upstream;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use upstream::Handler;

use crate::http::{self, Answer};

/// The route table every way in is set up with.
const CONFIG: &str = r#"
[[routes]]
pattern = "*:*"
on_lost = "retry"

[[routes]]
pattern = "POST:waiting"
wait_ms = 30000
on_lost = "retry"

[[routes]]
pattern = "POST:required"
required = true
on_lost = "retry"

[[routes]]
pattern = "PUT:derived-*"
derive = true
on_lost = "retry"

[[routes]]
pattern = "POST:short"
ttl_seconds = 1
on_lost = "retry"

[[routes]]
pattern = "POST:again"
lease_seconds = 1
on_lost = "retry"

[[routes]]
pattern = "POST:held"
lease_seconds = 1
on_lost = "hold"

[[routes]]
pattern = "POST:large"
max_response_bytes = 1000
on_lost = "retry"

[[routes]]
pattern = "POST:ietf"
mismatch_status = 422
on_lost = "retry"
"#;

/// Where the records are.
#[derive(Clone)]
enum Store {
    Sqlite,
    Postgres(String),
}

impl Store {
    fn arguments(&self) -> Vec<String> {
        match self {
            Store::Sqlite => Vec::new(),
            Store::Postgres(url) => vec!["--database".to_owned(), url.clone()],
        }
    }
}

/// One request of a case.
#[derive(Clone)]
struct Request {
    method: &'static str,
    path: String,
    key: Option<String>,
    content_type: &'static str,
    body: Vec<u8>,
    todo: &'static str,
}

impl Request {
    fn post(path: &str, key: &str) -> Self {
        Self {
            method: "POST",
            path: path.to_owned(),
            key: Some(key.to_owned()),
            content_type: "application/json",
            body: br#"{"amount":10}"#.to_vec(),
            todo: "",
        }
    }

    fn body(mut self, body: &str) -> Self {
        self.body = body.as_bytes().to_vec();
        self
    }

    fn doing(mut self, todo: &'static str) -> Self {
        self.todo = todo;
        self
    }

    /// The answer, if all of it came.
    fn send_to(&self, address: SocketAddr) -> Option<Answer> {
        http::try_request(
            address,
            self.method,
            &self.path,
            &self.headers(),
            &self.body,
        )
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![("content-type", self.content_type), ("x-do", self.todo)];
        headers.extend(self.key.as_deref().map(|key| ("idempotency-key", key)));
        headers
    }
}

/// Sends one request: the answer, or nothing if the way in died meanwhile.
type Sender = Box<dyn Fn(&Request) -> Option<Answer> + Send>;

/// One way in.
trait Driver: Sync {
    fn name(&self) -> &'static str;
    fn handler(&self) -> &Handler;
    /// Sends a request to the way in as it is now: the answer, or nothing if it died meanwhile.
    fn sender(&self) -> Sender;
    fn send(&self, request: &Request) -> Option<Answer> {
        self.sender()(request)
    }
    /// Dies with what is in flight, and starts again on the same store.
    fn crash(&mut self);
    /// Ends the death of a service that claims remotely.
    fn revive(&mut self) {}
}

fn get(driver: &dyn Driver, request: &Request) -> Answer {
    driver.send(request).expect("an answer")
}

fn is_replay(answer: &Answer) -> bool {
    answer
        .header("idempotency-replayed")
        .is_some_and(|value| value == "true")
}

/// Polls until the answer is no longer "in progress", as a lease runs out.
fn get_after_lease(driver: &dyn Driver, request: &Request) -> Answer {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = get(driver, request);
        if answer.status != 409 || answer.json()["error"]["code"] != "IDEMPOTENCY_IN_PROGRESS" {
            return answer;
        }
        assert!(Instant::now() < until, "the lease does not run out");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn error_code(answer: &Answer) -> String {
    answer.json()["error"]["code"]
        .as_str()
        .unwrap_or("")
        .to_owned()
}

type Case = (&'static str, fn(&mut dyn Driver));

/// The rows of the table, and the rules around it.
const CASES: &[Case] = &[
    ("nothing seen: it runs and the answer is stored", fresh),
    ("settled: the stored answer, without its cookie", settled),
    ("another body: conflict with a diff", conflict),
    ("another body under the draft's status: 422", draft),
    ("another query or path id: a mismatch", elsewhere),
    ("another route: another operation", another_route),
    ("running elsewhere: told to come back", running),
    (
        "running elsewhere, waiting: one run, one answer for all",
        waiting,
    ),
    ("runner died, retry: it runs again", died_retry),
    ("runner died, hold: in doubt, and nothing runs", died_hold),
    ("expired: it runs as new and says so", expired),
    ("5xx, 408, 425, 429: the key is given back", not_final),
    ("other statuses: kept as they are", kept),
    ("binary and empty answers: byte for byte", bytes),
    (
        "an answer too large: through, and its replay says so",
        large,
    ),
    ("keys: quoted is bare, malformed is refused", keys),
    ("no key where one is required: refused", required),
    (
        "no key where one is derived: equal requests meet, others never",
        derived,
    ),
];

fn fresh(driver: &mut dyn Driver) {
    let before = driver.handler().runs();
    let answer = get(driver, &Request::post("/orders", "fresh"));
    assert_eq!((answer.status, is_replay(&answer)), (201, false));
    assert_eq!(driver.handler().runs(), before + 1);
}

fn settled(driver: &mut dyn Driver) {
    let request = Request::post("/orders", "settled");
    let first = get(driver, &request);
    let runs = driver.handler().runs();
    for body in [r#"{"amount":10}"#, r#"{ "request_id":"x", "amount":1e1 }"#] {
        let again = get(driver, &request.clone().body(body));
        assert_eq!(
            (again.status, is_replay(&again)),
            (201, true),
            "{}",
            again.text()
        );
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("location"), Some("/orders/7"));
        assert_eq!(again.header("x-idempotency-replay"), Some("true"));
        assert_eq!(again.header("set-cookie"), None);
    }
    assert_eq!(driver.handler().runs(), runs);
}

fn conflict(driver: &mut dyn Driver) {
    let request = Request::post("/orders", "conflict");
    get(driver, &request);
    let answer = get(driver, &request.clone().body(r#"{"amount":99}"#));
    assert_eq!(
        (answer.status, error_code(&answer).as_str()),
        (409, "IDEMPOTENCY_CONFLICT")
    );
    assert_eq!(
        answer.header("x-idempotency-conflict"),
        Some("body-mismatch")
    );
    let details = &answer.json()["error"]["details"];
    assert_eq!(details["original_key"], "conflict");
    assert_eq!(details["diff_summary"][0], "amount: '10' → '99'");
    assert!(
        details["retry_after"]
            .as_u64()
            .is_some_and(|left| left > 3000)
    );
    assert!(is_replay(&get(driver, &request)), "the first answer stands");
}

fn draft(driver: &mut dyn Driver) {
    let request = Request::post("/ietf", "draft");
    get(driver, &request);
    let answer = get(driver, &request.body("{}"));
    // The remote API says "conflict"; which status that becomes is its caller's own business.
    let expected = if driver.name() == "remote" { 409 } else { 422 };
    assert_eq!(
        (answer.status, error_code(&answer).as_str()),
        (expected, "IDEMPOTENCY_CONFLICT")
    );
}

fn elsewhere(driver: &mut dyn Driver) {
    get(driver, &Request::post("/customers/1", "elsewhere"));
    for path in ["/customers/2", "/customers/1?dry_run=1"] {
        let answer = get(driver, &Request::post(path, "elsewhere"));
        assert_eq!(
            (answer.status, error_code(&answer).as_str()),
            (409, "IDEMPOTENCY_CONFLICT"),
            "{path}"
        );
    }
}

fn another_route(driver: &mut dyn Driver) {
    assert!(!is_replay(&get(
        driver,
        &Request::post("/orders", "routes")
    )));
    assert!(!is_replay(&get(
        driver,
        &Request::post("/refunds", "routes")
    )));
}

fn running(driver: &mut dyn Driver) {
    let request = Request::post("/orders", "running").doing("wait");
    let driver: &dyn Driver = driver;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| get(driver, &request));
        driver.handler().wait_for_begin();
        let busy = get(driver, &request);
        assert_eq!(
            (busy.status, error_code(&busy).as_str()),
            (409, "IDEMPOTENCY_IN_PROGRESS")
        );
        assert!(busy.header("retry-after").is_some());
        let other = get(driver, &request.clone().body("{}"));
        assert_eq!(
            error_code(&other),
            "IDEMPOTENCY_CONFLICT",
            "conflict beats busy"
        );
        driver.handler().go_on();
        assert_eq!(first.join().unwrap().status, 201);
    });
    assert!(is_replay(&get(driver, &request)));
}

fn waiting(driver: &mut dyn Driver) {
    let request = Request::post("/waiting", "waiting").doing("wait");
    let driver: &dyn Driver = driver;
    let before = driver.handler().runs();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| get(driver, &request)))
            .collect();
        driver.handler().wait_for_begin();
        driver.handler().go_on();
        let answers: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(
            answers
                .iter()
                .all(|answer| answer.status == 201 && answer.body == answers[0].body)
        );
        assert_eq!(
            answers.iter().filter(|answer| !is_replay(answer)).count(),
            1
        );
    });
    assert_eq!(driver.handler().runs(), before + 1);
}

/// Dies while a request is in flight.
fn die_with(driver: &mut dyn Driver, request: &Request) {
    let send = driver.sender();
    let waiting = request.clone().doing("wait");
    // On a thread that outlives the death; its answer, if any, is of no interest.
    let gone = std::thread::spawn(move || send(&waiting));
    driver.handler().wait_for_begin();
    driver.crash();
    // Whatever still runs may end; the answer reaches nobody who could record it.
    driver.handler().go_on();
    drop(gone.join());
    driver.handler().forget_go_on();
    driver.revive();
}

fn died_retry(driver: &mut dyn Driver) {
    let request = Request::post("/again", "died-retry");
    die_with(driver, &request);
    let runs = driver.handler().runs();
    let answer = get_after_lease(driver, &request);
    assert_eq!(
        (answer.status, is_replay(&answer)),
        (201, false),
        "{}",
        answer.text()
    );
    assert_eq!(driver.handler().runs(), runs + 1);
    assert!(is_replay(&get(driver, &request)));
}

fn died_hold(driver: &mut dyn Driver) {
    let request = Request::post("/held", "died-hold");
    die_with(driver, &request);
    let runs = driver.handler().runs();
    for _ in 0..2 {
        let answer = get_after_lease(driver, &request);
        assert_eq!(
            (answer.status, error_code(&answer).as_str()),
            (409, "IDEMPOTENCY_IN_DOUBT")
        );
        assert_eq!(answer.header("retry-after"), None);
    }
    assert_eq!(
        driver.handler().runs(),
        runs,
        "nothing is sent twice without a person"
    );
}

fn expired(driver: &mut dyn Driver) {
    let request = Request::post("/short", "expired");
    get(driver, &request);
    let until = Instant::now() + Duration::from_secs(30);
    let answer = loop {
        let answer = get(driver, &request);
        if !is_replay(&answer) {
            break answer;
        }
        assert!(Instant::now() < until, "the key does not expire");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(
        (answer.status, answer.header("x-idempotency-expired")),
        (201, Some("true"))
    );
}

fn not_final(driver: &mut dyn Driver) {
    for todo in [
        "status=500",
        "status=503",
        "status=408",
        "status=425",
        "status=429",
    ] {
        let request = Request::post("/orders", &format!("not-final-{}", &todo[7..])).doing(todo);
        for _ in 0..2 {
            let answer = get(driver, &request);
            assert_eq!(
                (answer.status.to_string().as_str(), is_replay(&answer)),
                (&todo[7..], false)
            );
        }
        assert_eq!(
            get(driver, &request.doing("")).status,
            201,
            "the key is free"
        );
    }
}

fn kept(driver: &mut dyn Driver) {
    for todo in ["status=200", "status=302", "status=404", "status=422"] {
        let request = Request::post("/orders", &format!("kept-{}", &todo[7..])).doing(todo);
        get(driver, &request);
        let again = get(driver, &request.doing("status=500"));
        assert_eq!(
            (again.status.to_string().as_str(), is_replay(&again)),
            (&todo[7..], true)
        );
    }
}

fn bytes(driver: &mut dyn Driver) {
    for todo in ["bytes", "empty"] {
        let mut request = Request::post("/orders", &format!("bytes-{todo}")).doing(todo);
        request.content_type = "application/octet-stream";
        request.body = vec![0, 255, 13, 10, 0];
        let first = get(driver, &request);
        let again = get(driver, &request);
        assert!(is_replay(&again));
        assert_eq!(
            (first.status, &first.body),
            (again.status, &again.body),
            "{todo}"
        );
        request.body[0] = 1;
        assert_eq!(get(driver, &request).status, 409);
    }
}

fn large(driver: &mut dyn Driver) {
    let request = Request::post("/large", "large").doing("large");
    let first = get(driver, &request);
    assert_eq!(first.body.len(), 5000);
    let again = get(driver, &request);
    assert_eq!(
        (again.status, error_code(&again).as_str()),
        (409, "IDEMPOTENCY_IN_DOUBT")
    );
    assert_eq!(
        again.json()["error"]["details"]["reason"],
        "response_not_stored"
    );
}

fn keys(driver: &mut dyn Driver) {
    get(driver, &Request::post("/orders", "quoted"));
    assert!(is_replay(&get(
        driver,
        &Request::post("/orders", "\"quoted\"")
    )));
    for key in ["two words", "\"open", "é", &"k".repeat(256)] {
        let answer = get(driver, &Request::post("/orders", key));
        assert_eq!(
            (answer.status, error_code(&answer).as_str()),
            (400, "idempotency_key_invalid"),
            "{key}"
        );
    }
}

fn required(driver: &mut dyn Driver) {
    let mut request = Request::post("/required", "");
    request.key = None;
    if driver.name() == "remote" {
        return; // A remote claim without a key is one that asks for a derived key.
    }
    let answer = get(driver, &request);
    assert_eq!(
        (answer.status, error_code(&answer).as_str()),
        (400, "idempotency_key_required")
    );
}

fn derived(driver: &mut dyn Driver) {
    let mut request = Request::post("/api/v1/derived/1", "");
    (request.method, request.key) = ("PUT", None);
    assert!(!is_replay(&get(driver, &request)));
    assert!(is_replay(&get(
        driver,
        &request.clone().body(r#" {"amount":10.0} "#)
    )));
    let others = [
        ("/api/v1/derived/2", "{}"),
        ("/api/v1/derived/1?x=1", "{}"),
        ("/api/v1/derived/1", "[]"),
    ];
    for (path, body) in others {
        let other = Request {
            path: path.to_owned(),
            ..request.clone().body(body)
        };
        assert!(!is_replay(&get(driver, &other)), "{path}");
    }
}

/// Runs every case; says which failed.
fn run(driver: &mut dyn Driver) {
    let mut failed = Vec::new();
    for (name, case) in CASES {
        if catch_unwind(AssertUnwindSafe(|| case(driver))).is_err() {
            failed.push(*name);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} rows fail: {failed:#?}",
        failed.len(),
        CASES.len()
    );
}

fn postgres() -> Store {
    Store::Postgres(crate::postgres::database())
}

#[test]
fn the_layer_on_sqlite_behaves_as_the_table_says() {
    run(&mut layer::Layer::start(Store::Sqlite));
}

#[test]
fn the_layer_on_postgres_behaves_as_the_table_says() {
    run(&mut layer::Layer::start(postgres()));
}

#[test]
fn the_remote_api_on_sqlite_behaves_as_the_table_says() {
    run(&mut remote::Remote::start(&Store::Sqlite));
}

#[test]
fn the_remote_api_on_postgres_behaves_as_the_table_says() {
    run(&mut remote::Remote::start(&postgres()));
}

#[test]
fn the_proxy_on_sqlite_behaves_as_the_table_says() {
    run(&mut proxy::Proxy::start(&Store::Sqlite));
}

#[test]
fn the_proxy_on_postgres_behaves_as_the_table_says() {
    run(&mut proxy::Proxy::start(&postgres()));
}

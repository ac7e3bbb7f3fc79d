//! Sessions: a cookie that somebody took along is worth nothing once its owner signed out or its token was revoked.

use serde_json::json;

use crate::both::{Store, on_both_stores};
use crate::fixture::{Server, path, succeed};

on_both_stores! {
    a_cookie_is_worth_nothing_after_its_owner_signed_out,
    sessions_of_a_revoked_token_are_over_with_the_next_request,
    a_sign_out_that_nobody_looked_at_is_not_said_to_have_worked,
}

fn sign_in(server: &Server, token: &str) -> String {
    let body = json!({"token": token}).to_string();
    let headers = [("content-type", "application/json")];
    let answer = server.send("POST", "/session", &headers, body.as_bytes());
    assert_eq!(answer.status, 204, "{}", answer.text());
    let set = answer.header("set-cookie").unwrap();
    set.split(';').next().unwrap().to_owned()
}

fn status(server: &Server, cookie: &str) -> u16 {
    server
        .send("GET", "/v1/keys", &[("cookie", cookie)], b"")
        .status
}

fn sign_out(server: &Server, cookie: &str) {
    let marked = [("cookie", cookie), ("x-hapax-csrf", "1")];
    assert_eq!(server.send("DELETE", "/session", &marked, b"").status, 204);
}

fn a_cookie_is_worth_nothing_after_its_owner_signed_out(store: Store) {
    let server = store.serve("");
    let token = server.token_of("default", "writer");
    let (stolen, other) = (sign_in(&server, &token), sign_in(&server, &token));
    assert_ne!(stolen, other, "each session has its own name");
    assert_eq!(
        (status(&server, &stolen), status(&server, &other)),
        (200, 200)
    );
    // Only its owner's own pages can end it.
    let answer = server.send("DELETE", "/session", &[("cookie", &stolen)], b"");
    assert_eq!((answer.status, status(&server, &stolen)), (403, 200));
    sign_out(&server, &stolen);
    assert_eq!(
        (status(&server, &stolen), status(&server, &other)),
        (401, 200)
    );
    sign_out(&server, &stolen);
    let again = sign_in(&server, &token);
    assert_eq!(status(&server, &again), 200, "a new one is another");
    let server = server.restarted();
    assert_eq!(
        (status(&server, &stolen), status(&server, &other)),
        (401, 200)
    );
}

fn a_sign_out_that_nobody_looked_at_is_not_said_to_have_worked(store: Store) {
    let server = store.serve("");
    let cookie = sign_in(&server, &server.token_of("default", "writer"));
    for n in 0..40 {
        let guess = format!("hpx_{n:032x}_{}", "a".repeat(52));
        let refused = server.bearing(&guess, "GET", "/v1/keys", "").status;
        assert!([401, 429].contains(&refused), "{refused}");
    }
    let marked = [("cookie", cookie.as_str()), ("x-hapax-csrf", "1")];
    let answer = server.send("DELETE", "/session", &marked, b"");
    assert_eq!(answer.refusal(), (429, "rate_limited".to_owned()));
    assert!(answer.header("retry-after").is_some());
}

fn sessions_of_a_revoked_token_are_over_with_the_next_request(store: Store) {
    let server = store.serve("");
    let made = server.command(&["token", "create", "--tenant", "default", "--role", "viewer"]);
    let cookie = sign_in(&server, made["token"].as_str().unwrap());
    let id = made["id"].as_str().unwrap();
    // Asked all the time, so that whatever is remembered of it is fresh when the token is revoked.
    let revoked = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !revoked.load(std::sync::atomic::Ordering::SeqCst) {
                status(&server, &cookie);
            }
        });
        server.run(&["token", "revoke", id], 0);
        let next = status(&server, &cookie);
        revoked.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(next, 401);
    });
}

#[test]
fn who_signs_out_on_one_node_is_signed_out_on_all() {
    let url = crate::postgres::database();
    let start = || {
        Server::start_with(|command| {
            let secret = "shared by all the nodes of this place";
            command
                .args(["--database", &url])
                .env("HAPAX_SESSION_SECRET", secret);
        })
    };
    let (one, two) = (start(), start());
    let cookie = sign_in(&one, &one.token());
    assert_eq!((status(&one, &cookie), status(&two, &cookie)), (200, 200));
    sign_out(&one, &cookie);
    assert_eq!((status(&one, &cookie), status(&two, &cookie)), (401, 401));
    let made = succeed(&[
        "token",
        "list",
        "--database",
        &url,
        "--data",
        path(&one.data()),
    ]);
    assert!(
        !made.contains("revoked "),
        "the token itself is untouched: {made}"
    );
    let configured = Server::start_with(|command| {
        command.env("HAPAX_TOKEN", "a-long-configured-token");
    });
    let cookie = sign_in(&configured, "a-long-configured-token");
    sign_out(&configured, &cookie);
    assert_eq!(status(&configured, &cookie), 401);
}

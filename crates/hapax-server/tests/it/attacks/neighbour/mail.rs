//! Mail of another tenant: in which folder it lies, by which name, and whoever began to import it before.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::both::{Node, Store, on_both_stores};
use crate::fixture::{Server, path};
use crate::http::Answer;

const ADA: &str = "a1a1a1a1-1111-4111-8111-111111111111";
const BOB: &str = "b2b2b2b2-2222-4222-8222-222222222222";
const NOBODY: &str = "c3c3c3c3-3333-4333-8333-333333333333";

on_both_stores!(
    the_default_tenant_imports_no_mail_of_another_and_is_not_told_what_is_there,
    a_tenant_imports_its_own_mail_from_either_place_and_nobody_elses,
    an_import_of_anothers_mail_that_was_begun_before_does_not_go_on,
);

/// A mailbox with this many mails of one sender.
fn mails(of: &str, count: usize) -> String {
    let mail = |number: usize| {
        format!(
            "From a Thu Aug 22 12:36:23 2002\nFrom: {of} <{of}@example.org>\nSubject: {of} {number}\n\
             Message-ID: <{of}-{number}@example.org>\nDate: Thu, 22 Aug 2002 12:00:00 +0000\n\nWords of {of}.\n\n"
        )
    };
    (0..count).map(mail).collect()
}

/// The folder of imports: Ada has the new place, Bob the old one, and links lead everywhere.
fn folder() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |name: &str, of: &str| {
        let file = root.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, mails(of, 2)).unwrap();
    };
    put("a.mbox", "default");
    put("team/a.mbox", "default");
    put(&format!("tenants/{ADA}/a.mbox"), "ada");
    put(&format!("{BOB}/a.mbox"), "bob");
    put("tenants/a.mbox", "nobody");
    let link = |to: &str, name: &str| symlink(to, root.path().join(name)).unwrap();
    link(&format!("tenants/{ADA}"), "to-ada");
    link(&format!("../{BOB}/a.mbox"), "team/bob.mbox");
    link(&format!("../{BOB}/none.mbox"), "team/none.mbox");
    link(".", "here");
    link(&format!("../../{BOB}"), &format!("tenants/{ADA}/bob"));
    link("../../team", &format!("tenants/{ADA}/team"));
    root
}

fn serve(store: Store, root: &TempDir) -> Node {
    store.serve(&format!("email_import_root = '{}'\n", path(root.path())))
}

fn import(node: &Node, token: &str, name: &str) -> Answer {
    let body = json!({ "mbox_path": name }).to_string();
    node.bearing(token, "POST", "/import/email/mbox", &body)
}

/// All of these are forbidden, and all with the same words.
fn all_forbidden(node: &Node, token: &str, names: &[String]) {
    let mut voices = BTreeSet::new();
    for name in names {
        let answer = import(node, token, name);
        assert_eq!(answer.refusal(), (403, "forbidden".to_owned()), "{name}");
        voices.insert(answer.json()["error"].to_string());
    }
    assert_eq!(voices.len(), 1, "{voices:?}");
    let listed = node.bearing(token, "GET", "/v1/imports", "").json();
    assert_eq!(listed["items"], json!([]));
    let newest = node.bearing(token, "POST", "/db/read/last", r#"{"limit":9}"#);
    assert_eq!(newest.json(), json!([]));
}

fn the_default_tenant_imports_no_mail_of_another_and_is_not_told_what_is_there(store: Store) {
    let root = folder();
    let node = serve(store, &root);
    let token = node.token_of("default", "writer");
    let long = "n".repeat(300);
    let simple = |uuid: &str| uuid.replace('-', "");
    let mut names = vec![
        format!("//{BOB}/a.mbox"),
        format!("./{BOB}/a.mbox"),
        format!("team/../{BOB}/a.mbox"),
        format!("here/{BOB}/a.mbox"),
        format!("here/here/tenants/{ADA}/a.mbox"),
        format!("{}/a.mbox", simple(BOB).to_uppercase()),
        format!("{{{BOB}}}/a.mbox"),
        format!("TENANTS/{ADA}/a.mbox"),
        format!("tenants./{ADA}/a.mbox"),
        format!("tenants/{ADA}./a.mbox"),
        format!("{BOB}. /a.mbox"),
        "B2B2B2~1/a.mbox".to_owned(),
        "to-ada/a.mbox".to_owned(),
        "to-ada/none.mbox".to_owned(),
        "team/bob.mbox".to_owned(),
        "team/none.mbox".to_owned(),
        "tenants".to_owned(),
        "tenants/a.mbox".to_owned(),
        "tenants/none.mbox".to_owned(),
        path(&root.path().join(BOB).join("a.mbox")).to_owned(),
    ];
    for (uuid, prefix) in [
        (ADA, "tenants/"),
        (BOB, ""),
        (NOBODY, "tenants/"),
        (NOBODY, ""),
    ] {
        for file in ["a.mbox", "none.mbox", &long, ""] {
            names.push(format!("{prefix}{uuid}/{file}"));
        }
    }
    all_forbidden(&node, &token, &names);
    // What a browser would decode is a name like any other here.
    let encoded = import(&node, &token, &format!("tenants%2f{ADA}%2fa.mbox"));
    assert_eq!(encoded.refusal(), (404, "not_found".to_owned()));
    for own in ["a.mbox", "team/a.mbox", "here/team/../a.mbox"] {
        let answer = import(&node, &token, own);
        assert_eq!(answer.status, 200, "{own}: {}", answer.text());
        assert_eq!(answer.json()["normalized_ok"], 2, "{own}");
    }
}

fn a_tenant_imports_its_own_mail_from_either_place_and_nobody_elses(store: Store) {
    let root = folder();
    let node = serve(store, &root);
    let (ada, bob) = (node.token_of(ADA, "writer"), node.token_of(BOB, "writer"));
    let absolute = |name: &str| path(&root.path().join(name)).to_owned();
    let bobs = absolute(&format!("{BOB}/a.mbox"));
    let adas = absolute(&format!("tenants/{ADA}/a.mbox"));
    let names = [
        bobs.clone(),
        absolute("a.mbox"),
        format!("../../{BOB}/a.mbox"),
        "../a.mbox".to_owned(),
        "bob/a.mbox".to_owned(),
        "bob/none.mbox".to_owned(),
        "team/a.mbox".to_owned(),
        "team/none.mbox".to_owned(),
    ];
    all_forbidden(&node, &ada, &names);
    all_forbidden(&node, &bob, &[adas.clone(), "../a.mbox".to_owned()]);
    // The name of the folder of tenants is a name like any other in there.
    let within = import(&node, &bob, &format!("tenants/{ADA}/a.mbox"));
    assert_eq!(within.refusal(), (404, "not_found".to_owned()));

    for (token, full, whose) in [(&ada, &adas, "ada"), (&bob, &bobs, "bob")] {
        for name in ["a.mbox", full] {
            let answer = import(&node, token, name);
            assert_eq!(answer.status, 200, "{whose}: {}", answer.text());
            let done = answer.json();
            assert_eq!(
                (&done["mbox_path"], &done["normalized_ok"]),
                (&"a.mbox".into(), &2.into())
            );
        }
        let last = node.bearing(token, "POST", "/db/read/last", r#"{"limit":9}"#);
        let last = last.json();
        let titles: Vec<&Value> = last
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["title"])
            .collect();
        assert!(
            titles
                .iter()
                .all(|title| title.as_str().unwrap().starts_with(whose)),
            "{titles:?}"
        );
    }
    let stranger = node.token_of(NOBODY, "writer");
    let answer = import(&node, &stranger, "a.mbox");
    assert_eq!(answer.refusal(), (404, "not_found".to_owned()));
    assert!(answer.text().contains("tenants/UUID"), "{}", answer.text());
}

/// A server that takes imports up by itself, with this folder of imports.
fn start(folder: TempDir, store: &[String], root: &std::path::Path) -> Server {
    Server::start_in(folder, |command| {
        command.args(store).env("EMAIL_IMPORT_ROOT", root);
    })
}

fn shown(server: &Server, id: &Value) -> Value {
    let path = format!("/import/{}", id.as_str().unwrap());
    server.owner("GET", &path, "").json()
}

/// Asks until it is so.
fn until(server: &Server, id: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let now = shown(server, id);
        if is_so(&now) {
            return now;
        }
        assert!(Instant::now() < end, "it took too long: {now}");
        std::thread::yield_now();
    }
}

/// The folder that an import was begun in has become another tenant's since, and a link leads there by the old name.
fn an_import_of_anothers_mail_that_was_begun_before_does_not_go_on(store: Store) {
    let store = store.flags();
    let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (inbox, of_ada) = (
        root.path().join("inbox"),
        root.path().join("tenants").join(ADA),
    );
    std::fs::create_dir(&inbox).unwrap();
    std::fs::create_dir(of_ada.parent().unwrap()).unwrap();
    std::fs::write(inbox.join("a.mbox"), mails("ada", 3000)).unwrap();
    let server = start(data, &store, root.path());
    let body = json!({"mbox_path": "inbox/a.mbox", "insert_chunk_size": 4, "async": true});
    let begun = server
        .owner("POST", "/import/email/mbox", &body.to_string())
        .json();
    let id = &begun["import_id"];
    until(&server, id, |now| {
        now["total_messages"].as_u64().unwrap() > 0
    });
    server.signal("KILL");
    let (_, _, data) = server.wait();
    std::fs::rename(&inbox, &of_ada).unwrap();
    symlink(&of_ada, &inbox).unwrap();

    let server = start(data, &store, root.path());
    let before = shown(&server, id);
    assert_eq!(
        before["status"], "running",
        "it was killed on the way: {before}"
    );
    let again = server.owner("POST", "/import/email/mbox", &body.to_string());
    assert_eq!(again.refusal(), (403, "forbidden".to_owned()));
    let job = || {
        let path = format!("/v1/jobs/{}", id.as_str().unwrap());
        server.owner("GET", &path, "").json()
    };
    let end = Instant::now() + Duration::from_secs(60);
    while job()["error"].is_null() {
        let now = shown(&server, id);
        assert_eq!(
            now["total_messages"], before["total_messages"],
            "it went on"
        );
        assert!(Instant::now() < end, "no attempt was made: {}", job());
        std::thread::yield_now();
    }
    let (after, job) = (shown(&server, id), job());
    assert_eq!(after["total_messages"], before["total_messages"], "{after}");
    assert!(
        job["error"]
            .as_str()
            .unwrap()
            .contains("beneath the tenant's import folder"),
        "{job}"
    );
}

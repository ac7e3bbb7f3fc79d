//! One import per file at a time: who asks again joins it, also after whoever drove it is gone.

use serde_json::{Value, json};

use super::mailbox::{Form, Mail, mailbox, varied};
use super::{House, adds_up, counted};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    who_does_not_wait_gets_the_id_and_sees_it_go_on,
    many_who_ask_for_one_file_at_once_get_one_import,
    without_a_worker_the_asked_process_imports,
    a_client_that_goes_away_does_not_stop_it,
    a_server_that_stops_leaves_it_to_the_next,
    a_worker_goes_on_with_what_a_killed_server_began,
    a_file_that_changed_since_is_not_gone_on_with,
    a_file_that_is_gone_leaves_the_import_running,
    another_tenant_has_imports_of_its_own,
    another_tenants_import_goes_on_after_a_kill,
);

fn who_does_not_wait_gets_the_id_and_sees_it_go_on(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(200)));
    let answer = house.ask(&json!({"mbox_path": "a.mbox", "async": true}));
    assert_eq!(answer.status, 202, "{}", answer.text());
    let begun = answer.json();
    assert_eq!(begun["status"], "running");
    adds_up(&begun);
    let ended = house.ended(&begun["import_id"]);
    assert_eq!(
        (&ended["status"], &ended["total_messages"]),
        (&json!("completed"), &json!(200))
    );
}

fn many_who_ask_for_one_file_at_once_get_one_import(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(300)));
    std::os::unix::fs::symlink("a.mbox", house.root.path().join("link.mbox")).unwrap();
    let absolute = house.root.path().join("a.mbox");
    let names = [
        "a.mbox",
        "./a.mbox",
        "link.mbox",
        absolute.to_str().unwrap(),
    ];
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let asking = names.map(|name| {
            let (house, body) = (&house, json!({"mbox_path": name, "insert_chunk_size": 10}));
            scope.spawn(move || house.done(&body))
        });
        asking.map(|one| one.join().unwrap()).into()
    });
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    let listed = house.owner("GET", "/v1/imports", "").json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
}

fn without_a_worker_the_asked_process_imports(store: Store) {
    let house = House::without_worker(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(100)));
    assert_eq!(house.import("a.mbox")["total_messages"], 100);
    house.put("b.mbox", mailbox(Form::Mboxrd, &[Mail::news(5000)]));
    let begun = house
        .ask(&json!({"mbox_path": "b.mbox", "async": true}))
        .json();
    assert_eq!(house.ended(&begun["import_id"])["inserted"], 1);
}

fn a_client_that_goes_away_does_not_stop_it(store: Store) {
    let house = House::without_worker(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(400)));
    let body = json!({"mbox_path": "a.mbox", "insert_chunk_size": 5}).to_string();
    let head = format!(
        "POST /import/email/mbox HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        house.token(),
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(house.address).unwrap();
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let listed = loop {
        let listed = house.owner("GET", "/v1/imports", "").json();
        if !listed["items"].as_array().unwrap().is_empty() {
            break listed;
        }
    };
    drop(stream);
    let ended = house.ended(&listed["items"][0]["import_id"]);
    assert_eq!(
        (&ended["status"], &ended["total_messages"]),
        (&json!("completed"), &json!(400))
    );
}

fn a_server_that_stops_leaves_it_to_the_next(store: Store) {
    for works in [true, false] {
        let house = House::with(store, works);
        house.put("a.mbox", mailbox(Form::Mboxrd, &varied(1500)));
        let asked = json!({"mbox_path": "a.mbox", "insert_chunk_size": 2, "async": true});
        let begun = house.ask(&asked).json();
        let id = begun["import_id"].clone();
        house.until(&id, |now| now["total_messages"].as_u64().unwrap() > 10);
        let House {
            server,
            root,
            store,
            works,
        } = house;
        let (code, _, folder) = server.stop();
        assert_eq!(code, Some(0));
        let house = House::start(folder, root, store, works);
        assert_eq!(house.ask(&asked).json()["import_id"], id);
        assert_eq!(house.ended(&id)["total_messages"], 1500);
    }
}

fn a_worker_goes_on_with_what_a_killed_server_began(store: Store) {
    let house = House::without_worker(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(1500)));
    let asked = json!({"mbox_path": "a.mbox", "insert_chunk_size": 2, "async": true});
    let id = house.ask(&asked).json()["import_id"].clone();
    house.until(&id, |now| now["total_messages"].as_u64().unwrap() > 10);
    let house = house.killed_and_restarted();
    assert_eq!(house.shown(&id)["status"], "running");
    let worker = crate::fixture::hapax()
        .args(["worker", "--kinds", "import", "--data"])
        .arg(house.data())
        .args(&house.store)
        .env("EMAIL_IMPORT_ROOT", house.root.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut worker = worker.unwrap();
    let ended = house.ended(&id);
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!(
        (&ended["status"], &ended["total_messages"]),
        (&json!("completed"), &json!(1500))
    );
}

fn a_file_that_changed_since_is_not_gone_on_with(store: Store) {
    let house = House::without_worker(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(1500)));
    let asked = json!({"mbox_path": "a.mbox", "insert_chunk_size": 2, "async": true});
    let id = house.ask(&asked).json()["import_id"].clone();
    house.until(&id, |now| now["total_messages"].as_u64().unwrap() > 10);
    let house = house.killed_and_restarted();
    let mails: Vec<Mail> = (3000..5000).map(Mail::news).collect();
    house.put("a.mbox", mailbox(Form::Mboxrd, &mails));

    let failed = house.import("a.mbox");

    assert_eq!(
        (&failed["import_id"], &failed["status"]),
        (&id, &json!("failed"))
    );
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains("import it again"),
        "{failed}"
    );
    let again = house.import("a.mbox");
    assert_eq!(counted(&again)[..2], [2000, 2000], "{again}");
}

fn a_file_that_is_gone_leaves_the_import_running(store: Store) {
    let house = House::without_worker(store);
    let file = house.put("a.mbox", mailbox(Form::Mboxrd, &varied(1500)));
    let asked = json!({"mbox_path": "a.mbox", "insert_chunk_size": 2, "async": true});
    let id = house.ask(&asked).json()["import_id"].clone();
    house.until(&id, |now| now["total_messages"].as_u64().unwrap() > 10);
    let House {
        server,
        root,
        store,
        ..
    } = house;
    server.signal("KILL");
    let (_, _, folder) = server.wait();
    let aside = root.path().join("aside");
    std::fs::rename(&file, &aside).unwrap();

    let house = House::start(folder, root, store, true);
    let job = format!("/v1/jobs/{}", id.as_str().unwrap());
    let failed = loop {
        let job = house.owner("GET", &job, "").json();
        if job["state"] == "FAILED" {
            break job;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains("not on this machine"),
        "{failed}"
    );
    assert_eq!(house.shown(&id)["status"], "running");
    assert_eq!(house.ask(&json!({"mbox_path": "a.mbox"})).status, 404);

    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(house.ask(&asked).json()["import_id"], id);
    let ended = house.ended(&id);
    assert_eq!(
        (&ended["status"], &ended["total_messages"]),
        (&json!("completed"), &json!(1500))
    );
}

fn another_tenant_has_imports_of_its_own(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(40)));
    let other = "11111111-1111-1111-1111-111111111111";
    let words = ["token", "create", "--tenant", other, "--role", "writer"];
    let token = house.command(&words).1["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let mine = house.import("a.mbox");
    let ask = |path: &str| {
        let body = json!({ "mbox_path": path }).to_string();
        house.bearing(&token, "POST", "/import/email/mbox", &body)
    };
    let gone = ask("a.mbox");
    assert_eq!(gone.refusal(), (404, "not_found".to_owned()));
    assert!(gone.text().contains("no folder"), "{}", gone.text());
    let folder = house.root.path().join(other);
    std::fs::create_dir(&folder).unwrap();
    let gone = ask("a.mbox");
    assert_eq!(gone.refusal(), (404, "not_found".to_owned()));
    let absolute = house.root.path().join("a.mbox");
    std::os::unix::fs::symlink(&absolute, folder.join("link")).unwrap();
    for path in ["../a.mbox", absolute.to_str().unwrap(), "link"] {
        let refused = ask(path);
        assert_eq!(refused.refusal(), (403, "forbidden".to_owned()), "{path}");
    }
    house.put(
        &format!("{other}/a.mbox"),
        mailbox(Form::Mboxrd, &varied(40)),
    );
    let theirs = ask("a.mbox").json();
    assert_eq!(counted(&theirs), counted(&mine), "{theirs}");
    assert_eq!(theirs["mbox_path"], "a.mbox");
    let path = format!("/import/{}", mine["import_id"].as_str().unwrap());
    assert_eq!(
        house.bearing(&token, "GET", &path, "").refusal(),
        (404, "not_found".to_owned())
    );
    let listed = house.bearing(&token, "GET", "/v1/imports", "").json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

fn another_tenants_import_goes_on_after_a_kill(store: Store) {
    let house = House::new(store);
    let other = "11111111-1111-1111-1111-111111111111";
    std::fs::create_dir(house.root.path().join(other)).unwrap();
    let name = format!("{other}/a.mbox");
    house.put(&name, mailbox(Form::Mboxrd, &varied(1500)));
    let words = ["token", "create", "--tenant", other, "--role", "writer"];
    let token = house.command(&words).1["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let asked = json!({"mbox_path": "a.mbox", "insert_chunk_size": 2, "async": true});
    let begun = house.bearing(&token, "POST", "/import/email/mbox", &asked.to_string());
    let path = format!("/import/{}", begun.json()["import_id"].as_str().unwrap());
    let until = |house: &House, is_so: &dyn Fn(&Value) -> bool| loop {
        let now = house.bearing(&token, "GET", &path, "").json();
        if is_so(&now) {
            return now;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    until(&house, &|now| now["total_messages"].as_u64().unwrap() > 10);
    let house = house.killed_and_restarted();
    let ended = until(&house, &|now| now["status"] != "running");
    assert_eq!(
        (&ended["status"], &ended["total_messages"]),
        (&json!("completed"), &json!(1500))
    );
}

"""Every group of the client against a real server, on both stores."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path
from typing import Any, Callable

import httpx
import pytest

from hapax import AsyncHapax, Hapax, HapaxError, LeaseLost, Retry, StateTransitionDenied, Unavailable, fingerprint

from .server import Server


def new(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:12]}"


def test_a_key_is_claimed_completed_and_replayed(client: Hapax) -> None:
    key = new("order")
    asked: dict[str, Any] = {"method": "POST", "path": "/payments", "key": key, "body": {"amount": 10}}
    first = client.keys.claim(**asked)
    assert (first["action"], first["route_pattern"], first["lost"]) == ("process", "POST:payments", False)
    assert client.keys.claim(**asked)["action"] == "in_progress"
    token = client.keys.renew(first["id"], token=first["token"])["token"]
    assert token != first["token"]
    told: dict[str, Any] = {"status": 201, "headers": {"Location": "/7", "Set-Cookie": "s=1"}, "body": {"id": 7}}
    ended = client.keys.complete(first["id"], token=token, **told)
    assert (ended["state"], ended["replayed"]) == ("settled", False)
    assert client.keys.complete(first["id"], token=token, **told)["replayed"]
    with pytest.raises(LeaseLost):
        client.keys.complete(first["id"], token=first["token"], **told)
    replay = client.keys.claim(**asked)
    assert replay["action"] == "replay"
    assert replay["response"] == {"status": 201, "headers": {"location": "/7"}, "body": {"id": 7}}
    other = client.keys.claim(**{**asked, "body": {"amount": 11}})
    assert other["conflict"]["diff_summary"] == ["amount: '10' → '11'"]


def test_a_released_key_runs_as_new_and_a_stale_token_is_refused(client: Hapax) -> None:
    asked: dict[str, Any] = {"method": "POST", "path": "/payments", "key": new("order"), "body": "text"}
    first = client.keys.claim(**asked)
    assert client.keys.release(first["id"], token=first["token"])["state"] == "released"
    second = client.keys.claim(**asked)
    assert second["action"] == "process"
    with pytest.raises(LeaseLost) as caught:
        client.keys.complete(first["id"], token=first["token"], status=200)
    assert caught.value.status == 409
    assert caught.value.trace_id


def test_an_answer_that_cannot_be_kept_is_recorded_as_given(client: Hapax) -> None:
    asked: dict[str, Any] = {"method": "POST", "path": "/exports", "key": new("export"), "body": {}}
    first = client.keys.claim(**asked)
    assert client.keys.complete(first["id"], token=first["token"], status=200, stored=False)["state"] == "settled"
    again = client.keys.claim(**asked)
    assert (again["action"], again["reason"]) == ("in_doubt", "response_not_stored")
    assert client.keys.get(first["id"])["status"] == 200


def test_binary_bodies_come_back_as_they_were(client: Hapax) -> None:
    data = base64.b64encode(bytes(range(256))).decode()
    asked: dict[str, Any] = {"method": "PUT", "path": "/blob", "key": new("blob"), "body_base64": data}
    claim = client.keys.claim(**asked)
    client.keys.complete(claim["id"], token=claim["token"], status=200, body_base64=data)
    assert client.keys.claim(**asked)["response"]["body_base64"] == data


def test_an_operator_lists_shows_settles_and_deletes_keys(client: Hapax) -> None:
    route = new("things")
    claims = [
        client.keys.claim(method="POST", path=f"/{route}", key=str(number), body={}, lease_seconds=0)
        for number in range(5)
    ]
    pattern = f"POST:{route}"
    assert sorted(key["key"] for key in client.keys.list(route=pattern, limit=2)) == list("01234")
    page = client.keys.page(route=pattern, limit=2)
    assert len(page.items) == 2
    assert page.next_cursor
    client.keys.settle(claims[0]["id"], status=200, body={"paid": True})
    shown = client.keys.get(claims[0]["id"])
    assert (shown["state"], shown["status"]) == ("settled", 200)
    assert client.keys.settle(claims[1]["id"], release=True)["state"] == "released"
    assert client.keys.delete(claims[0]["id"])["deleted"]
    with pytest.raises(HapaxError) as caught:
        client.keys.get(claims[0]["id"])
    assert (caught.value.code, caught.value.status, caught.value.retryable) == ("not_found", 404, False)
    actions = {row["action"] for row in client.audit(key_id=claims[0]["id"])}
    assert {"key_settled", "key_deleted"} <= actions
    assert client.stats()["total_requests"] > 0


def test_a_job_goes_its_way_under_its_lease(client: Hapax) -> None:
    kind = new("k")
    planned = client.jobs.plan(
        work_id="w", artifact_id="a", canonical_url="https://example.org/", kind=kind, payload={"n": 10**20}
    )
    again = client.jobs.plan(work_id="w", artifact_id="a", canonical_url="https://example.org/", kind=kind)
    assert (planned["planned"], again["planned"], again["job_id"]) == (True, False, planned["job_id"])
    (job,) = client.jobs.lease(owner="me", kinds=[kind])
    assert job["payload"] == {"n": 10**20}
    assert client.jobs.lease(owner="you", kinds=[kind]) == []
    fence: dict[str, Any] = {"owner": "me", "epoch": job["epoch"]}
    assert client.jobs.renew(job["job_id"], **fence)["owner"] == "me"
    with pytest.raises(StateTransitionDenied) as denied:
        client.jobs.advance(job["job_id"], "INDEXED", **fence)
    assert isinstance(denied.value, RuntimeError)
    begun = client.ops.begin(job_id=job["job_id"], kind="HEAD", context={"url": "u"}, **fence)
    assert begun["action"] == "execute"
    done = client.ops.complete(
        begun["op_key"], token=begun["token"], result={"size": 1}, advance_to="HEAD_DONE", **fence
    )
    assert done["job_state"] == "HEAD_DONE"
    replay = client.ops.begin(job_id=job["job_id"], kind="HEAD", context={"url": "u"}, **fence)
    assert (replay["action"], replay["result"]) == ("replay", {"size": 1})
    assert client.jobs.advance(job["job_id"], "STREAMING", **fence)["state"] == "STREAMING"
    with pytest.raises(LeaseLost):
        client.jobs.advance(job["job_id"], "FINALIZED", owner="me", epoch=job["epoch"] - 1)
    failed = client.jobs.fail(job["job_id"], error="no luck", retryable=False, **fence)
    assert failed["state"] == "DEAD"
    shown = client.jobs.get(job["job_id"])
    assert [op["kind"] for op in shown["ops"]] == ["HEAD"]
    assert [found["job_id"] for found in client.jobs.list(kind=kind)] == [job["job_id"]]
    assert client.jobs.retry(job["job_id"])["state"] == "PLANNED"
    assert client.reconcile(dry_run=True)["dry_run"] is True


def test_doubt_about_an_operation_is_ended_by_a_word(client: Hapax) -> None:
    kind = new("k")
    client.jobs.plan(work_id="w", artifact_id="a", canonical_url="u", kind=kind)
    (first,) = client.jobs.lease(owner="one", kinds=[kind])
    begun = client.ops.begin(job_id=first["job_id"], kind="PAY", context={}, owner="one", epoch=first["epoch"])
    client.jobs.release(first["job_id"], owner="one", epoch=first["epoch"])
    (second,) = client.jobs.lease(owner="two", kinds=[kind])
    fence: dict[str, Any] = {"owner": "two", "epoch": second["epoch"]}
    assert client.ops.begin(job_id=first["job_id"], kind="PAY", context={}, **fence)["action"] == "in_doubt"
    client.ops.resolve(begun["op_key"], result=None, **fence)
    told = client.ops.begin(job_id=first["job_id"], kind="PAY", context={}, **fence)
    assert (told["action"], told["result"]) == ("replay", None)
    failing = client.ops.begin(job_id=first["job_id"], kind="POST", context={}, **fence)
    client.ops.fail(failing["op_key"], token=failing["token"], error={"why": "never"}, retryable=False, **fence)
    assert client.ops.begin(job_id=first["job_id"], kind="POST", context={}, **fence)["action"] == "failed"


def test_the_same_payload_is_one_snapshot(client: Hapax) -> None:
    course = new("course")
    payload = {"course": {"id": course, "name": "Logic"}, "price": 70.0}
    first = client.snapshots.ingest(payload, key=fingerprint(payload))
    second = client.snapshots.ingest({"price": 70, "course": {"name": "Logic", "id": course}})
    assert (first["idempotent"], second["idempotent"], second["snapshotId"]) == (False, True, first["snapshotId"])
    third = client.snapshots.ingest({**payload, "price": 71})
    assert client.snapshots.get(course)["payload"]["price"] == 71
    assert [seen["snapshotId"] for seen in client.snapshots.history(course, limit=1)] == [
        third["snapshotId"],
        first["snapshotId"],
    ]
    assert client.snapshots.snapshot(course, first["snapshotId"])["hash"] == fingerprint(payload)
    assert [found["courseId"] for found in client.snapshots.list(search=course, limit=1)] == [course]
    batch = client.snapshots.ingest_batch([payload, {"no": "course"}])
    assert (batch["ok"], batch["succeeded"], batch["failed"]) == (False, 1, 1)
    with pytest.raises(HapaxError) as caught:
        client.snapshots.ingest({"course": {}})
    assert caught.value.code == "schema_validation_failed"


def test_an_intent_is_received_once(busy: Hapax) -> None:
    packet = {
        "source": new("src"),
        "intent_type": "create_task",
        "natural_language": "x",
        "fields": {"title": "Buy milk"},
        "confidence": 0.9,
    }
    first, second = busy.intents.submit(packet), busy.intents.submit(packet)
    assert first["receipt_id"] == second["receipt_id"]
    assert first["status"] == "planned"
    assert busy.intents.receipt(first["receipt_id"])["status"] == "planned"
    assert busy.intents.get(first["receipt_id"])["packet"]["fields"] == {"title": "Buy milk"}
    assert first["receipt_id"] in {receipt["receipt_id"] for receipt in busy.intents.receipts(limit=2)}
    assert busy.intents.replay(first["receipt_id"])["status"] == "planned"


def test_a_question_of_an_intent_is_answered(busy: Hapax) -> None:
    packet = {
        "source": new("src"),
        "intent_type": "create_task",
        "fields": {"title": "Call", "due": "some day or other"},
        "confidence": 0.9,
    }
    asked = busy.intents.submit(packet)
    assert asked["status"] == "needs_clarification"
    (question,) = [one for one in busy.intents.clarifications() if one["receipt_id"] == asked["receipt_id"]]
    answered = busy.intents.answer(question["id"], answer_text="2030-01-02")
    assert (answered["receipt_id"], answered["status"]) == (asked["receipt_id"], "planned")


def test_entries_are_normalised_inserted_once_read_and_changed(busy: Hapax) -> None:
    word = new("zebra").replace("-", "")
    message = {
        "text": f"A thought about {word} and more",
        "source": {"chat_id": -int(uuid.uuid4().hex[:12], 16), "message_id": 1},
    }
    entry = busy.entries.normalize_telegram(message)
    assert entry["content_type"] == "thought"
    first, second = busy.entries.insert(entry), busy.entries.insert(entry)
    assert (first["action"], second["entry_id"]) == ("inserted", first["entry_id"])
    rows = busy.entries.insert_batch([entry, {"source": "telegram"}], returning=["entry_id"])
    assert [row["_batch_ok"] for row in rows] == [True, False]
    (changed,) = busy.entries.update({"entry_id": first["entry_id"], "title": "New"}, returning=["title"])
    assert changed["title"] == "New"
    assert busy.entries.update({"entry_id": 2**40, "title": "x"}) == []
    assert [row["entry_id"] for row in busy.entries.read_find(word)] == [first["entry_id"]]
    assert [row["entry_id"] for row in busy.entries.read_continue(word, days=1)] == [first["entry_id"]]
    assert busy.entries.read_last(limit=1)
    assert first["entry_id"] is not None
    assert busy.entries.read_pull(first["entry_id"])["title"] == "New"
    page = busy.entries.normalize_webpage({"text": "word " * 300, "url": "https://Example.org/a/?utm_source=x"})
    assert page["url_canonical"] == "https://example.org/a"
    mail = busy.entries.normalize_email(
        {
            "raw_text": "Hello there\n" * 10,
            "subject": "Re: [x] Hi",
            "from": "a@b.c",
            "source": {"message_id": f"<{word}@x>"},
        }
    )
    assert mail["idempotency_key_primary"]


def test_policies_and_the_test_mode_are_read_and_set(busy: Hapax) -> None:
    before = {policy["policy_key"]: policy for policy in busy.entries.policies()}
    assert "telegram_thought_v1" in before
    changed = busy.entries.set_policy("telegram_thought_v1", {"enabled": True})
    assert changed["enabled"]
    assert busy.entries.set_test_mode(False) is False
    assert busy.entries.toggle_test_mode() is True
    assert busy.entries.test_mode() is True
    assert busy.entries.toggle_test_mode() is False


def test_a_mailbox_is_imported_and_enrichment_says_what_it_lacks(busy: Hapax, mail_root: Path) -> None:
    name = new("box")
    mail = f"From a@b.c Thu Jan  1 00:00:00 2026\nFrom: a@b.c\nSubject: {name}\nMessage-ID: <{name}@x>\nDate: Thu, 01 Jan 2026 00:00:00 +0000\n\nHello there, this is a mail.\n\n"
    (mail_root / f"{name}.mbox").write_text(mail, encoding="utf-8")
    told = busy.entries.import_mbox(f"{name}.mbox")
    assert (told["status"], told["total_messages"], told["inserted"]) == ("completed", 1, 1)
    assert busy.entries.import_status(told["import_id"])["inserted"] == 1
    assert busy.entries.import_mbox(f"{name}.mbox", wait=False)["import_id"]
    for ask in (lambda: busy.entries.enrich_t1("some text"), lambda: busy.entries.enrich_batch([{"clean_text": "t"}])):
        with pytest.raises(HapaxError) as caught:
            ask()
        assert (caught.value.code, caught.value.status) == ("llm_not_configured", 503)
    batches = list(busy.entries.enrich_batches(include_terminal=True, limit=1))
    (batch,) = [batch for batch in batches if batch["import_id"] == told["import_id"]]
    whole = busy.entries.enrich_batch_status(batch["batch_id"], include_items=True)
    assert [item["status"] for item in whole["items"]] == ["queued"]
    with pytest.raises(HapaxError, match="not_found"):
        busy.entries.enrich_batch_status(str(uuid.uuid4()))
    assert busy.entries.config()["limits"]["batch_items_max"] > 0


def test_asyncio_has_the_same_groups(with_async: Callable[..., Any]) -> None:
    async def test(client: AsyncHapax) -> None:
        assert (await client.health())["status"] == "ok"
        route = new("async")
        for number in range(3):
            claim = await client.keys.claim(method="POST", path=f"/{route}", key=str(number), body={})
            await client.keys.complete(claim["id"], token=claim["token"], status=200, body={"n": number})
        assert len([key async for key in client.keys.list(route=f"POST:{route}", limit=1)]) == 3
        kind = new("k")
        await client.jobs.plan(work_id="w", artifact_id="a", canonical_url="u", kind=kind)
        (job,) = await client.jobs.lease(owner="me", kinds=[kind])
        assert (await client.jobs.release(job["job_id"], owner="me", epoch=job["epoch"]))["owner"] is None

    with_async(test)


def test_without_a_token_nothing_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAPAX_TOKEN", raising=False)
    with Hapax(server.url) as nobody, pytest.raises(HapaxError) as caught:
        nobody.stats()
    assert (caught.value.code, caught.value.status) == ("unauthorized", 401)


def test_the_environment_says_where_the_server_is(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAPAX_URL", server.url + "/")
    monkeypatch.setenv("HAPAX_TOKEN", server.token)
    with Hapax() as client:
        assert client.version()["name"] == "hapax"
        client.stats()


class Flaky(httpx.BaseTransport):
    """Fails some times, in its way, and counts."""

    def __init__(self, *failures: Any) -> None:
        self.failures = list(failures)
        self.seen = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.seen += 1
        if not self.failures:
            return httpx.Response(200, json={"jobs": [], "items": [], "ok": True})
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        assert isinstance(failure, httpx.Response)
        return failure


def flaky(*failures: Any) -> tuple[Hapax, Flaky]:
    transport = Flaky(*failures)
    http = httpx.Client(base_url="http://test", transport=transport)
    return Hapax(http=http, retry=Retry(attempts=3, base_s=0.0, cap_s=0.0)), transport


@pytest.mark.parametrize(
    "failure", [httpx.ReadTimeout("late"), httpx.Response(503), httpx.Response(429), httpx.Response(502, text="<html>")]
)
def test_a_call_that_may_be_repeated_is(failure: Any) -> None:
    client, transport = flaky(failure, failure)
    client.jobs.plan(work_id="w", artifact_id="a", canonical_url="u")
    assert transport.seen == 3


def test_a_lease_is_repeated_only_if_it_was_not_sent() -> None:
    client, transport = flaky(httpx.ReadTimeout("late"))
    with pytest.raises(Unavailable, match="POST /v1/jobs/lease got no answer"):
        client.jobs.lease(owner="me")
    assert transport.seen == 1
    client, transport = flaky(httpx.ConnectError("down"))
    assert client.jobs.lease(owner="me") == []
    assert transport.seen == 2


def test_an_entry_without_keys_is_not_inserted_twice() -> None:
    client, transport = flaky(httpx.ReadTimeout("late"))
    with pytest.raises(Unavailable):
        client.entries.insert({"source": "web"})
    assert transport.seen == 1


def test_what_never_answers_is_given_up() -> None:
    client, transport = flaky(*[httpx.ReadTimeout("late")] * 9)
    with pytest.raises(Unavailable):
        client.stats()
    assert transport.seen == 3


def test_pages_that_go_in_a_circle_are_left() -> None:
    client, _ = flaky(*[httpx.Response(200, json={"items": [1], "next_cursor": "same"}) for _ in range(9)])
    with pytest.raises(Unavailable, match="in a circle"):
        list(client.keys.list())


def test_a_failed_receipt_is_an_answer_and_any_other_502_is_not() -> None:
    client, _ = flaky(httpx.Response(502, json={"receipt_id": "r", "status": "failed"}))
    assert client.intents.submit({"source": "s"})["status"] == "failed"
    client, _ = flaky(httpx.Response(502, json={"error": {"code": "downstream_failed", "message": "m"}}))
    with pytest.raises(HapaxError, match="downstream_failed"):
        client.intents.submit({"source": "s"})


def test_what_is_no_hapax_server_is_told_so() -> None:
    client, _ = flaky(httpx.Response(200, text="<html>"))
    with pytest.raises(Unavailable, match="is this a hapax server"):
        client.health()

"""with_idempotency_key: one key for all tries, when it tries again, and what it never does."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional

import httpx
import pytest

from hapax import (
    Conflict,
    FileKeyStore,
    HapaxError,
    Result,
    Retry,
    Unavailable,
    async_with_idempotency_key,
    fingerprint,
    post,
    with_idempotency_key,
)
from hapax.retry import retry_after

from .server import Server

Step = object


def refusal(status: int, code: str, headers: Optional[dict[str, str]] = None, **details: Any) -> httpx.Response:
    body = {"error": {"code": code, "message": "m", "details": details}, "trace_id": "t"}
    return httpx.Response(status, json=body, headers=headers)


class Script:
    """A send function that plays a list of answers, and clocks that do not wait."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.keys: list[str] = []
        self.waits: list[float] = []
        self.now = 0.0

    def send(self, key: str, attempt: int) -> httpx.Response:
        self.keys.append(key)
        assert attempt == len(self.keys)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        assert isinstance(step, httpx.Response)
        return step

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def run(self, **options: Any) -> Result:
        return with_idempotency_key(self.send, sleep=self.sleep, clock=lambda: self.now, chance=lambda: 1.0, **options)


def test_every_try_carries_the_same_key_and_waits_longer() -> None:
    script = Script(httpx.ConnectError("down"), httpx.Response(500), httpx.Response(201, json={"id": 7}))
    result = script.run()
    assert (result.data, result.status, result.error, result.attempts) == ({"id": 7}, 201, None, 3)
    assert len(set(script.keys)) == 1
    assert script.waits == [0.2, 0.4]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_be_gone_next_time_is_tried_again(status: int) -> None:
    assert Script(httpx.Response(status), httpx.Response(200, json=1)).run().data == 1


def test_a_key_that_is_in_progress_is_tried_again_when_the_server_says() -> None:
    script = Script(refusal(409, "IDEMPOTENCY_IN_PROGRESS", {"Retry-After": "3"}), httpx.Response(200, json=1))
    assert script.run().data == 1
    assert script.waits == [3.2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422])
def test_a_refusal_stays_a_refusal(status: int) -> None:
    script = Script(refusal(status, "some_code", reason="x"))
    result = script.run()
    assert isinstance(result.error, HapaxError)
    assert (result.error.code, result.error.details, result.error.trace_id) == ("some_code", {"reason": "x"}, "t")
    assert not result.error.retryable
    with pytest.raises(HapaxError, match="some_code"):
        result.unwrap()


@pytest.mark.parametrize("body", ["", "<html>", "[1]", '{"error": "no"}', '{"error": {"code": [7], "details": []}}'])
def test_a_body_in_no_known_form_is_still_a_refusal(body: str) -> None:
    never, again = (
        Script(httpx.Response(404, text=body)).run(),
        Script(httpx.Response(500, text=body)).run(retry=Retry(1)),
    )
    assert isinstance(never.error, HapaxError)
    assert never.error.code == "http_404"
    assert isinstance(again.error, Unavailable)


def test_what_is_in_doubt_or_a_recorded_failure_is_never_tried_again() -> None:
    doubt = Script(refusal(409, "IDEMPOTENCY_IN_DOUBT")).run()
    assert isinstance(doubt.error, HapaxError)
    replay = Script(httpx.Response(500, headers={"Idempotency-Replayed": "true"})).run()
    assert replay.replayed
    assert replay.attempts == 1


def test_tries_end_with_their_number_or_their_deadline() -> None:
    many = Script(*[httpx.Response(503) for _ in range(3)]).run(retry=Retry(attempts=3))
    assert isinstance(many.error, Unavailable)
    assert many.attempts == 3
    late = Script(refusal(503, "store_unavailable", {"Retry-After": "30"})).run(deadline=10)
    assert late.attempts == 1
    lost = Script(*[OSError("broken")] * 2).run(retry=Retry(attempts=2))
    assert isinstance(lost.error, Unavailable)
    assert lost.status is None
    assert lost.key in str(lost.error)


def test_an_error_of_the_caller_is_raised_at_once() -> None:
    with pytest.raises(KeyError):
        Script(KeyError("mine")).run()


def test_a_key_is_given_or_derived_or_new() -> None:
    assert Script(httpx.Response(200)).run(key="order-7").key == "order-7"
    payload = {"b": 1.0, "a": 2}
    assert Script(httpx.Response(200)).run(derive=payload).key == fingerprint({"a": 2, "b": 1})
    assert Script(httpx.Response(200)).run(derive=None).key == fingerprint(None)
    assert len(Script(httpx.Response(200)).run().key) == 36
    with pytest.raises(ValueError, match="not both"):
        Script().run(key="k", derive=1)
    with pytest.raises(ValueError, match="visible ASCII"):
        Script().run(key="two words")


def test_a_conflict_is_told_and_by_default_not_resolved() -> None:
    script = Script(refusal(409, "IDEMPOTENCY_CONFLICT", diff_summary=["amount: '1' → '2'"]))
    result = script.run(key="k")
    assert result.conflict == {"diff_summary": ["amount: '1' → '2'"]}
    assert len(script.keys) == 1


def test_a_conflict_is_retried_once_with_a_new_key_where_that_is_asked_for() -> None:
    conflict = refusal(409, "IDEMPOTENCY_CONFLICT", original_key="k")
    script = Script(conflict, httpx.Response(200, json=1))
    result = script.run(key="k", on_conflict="retry_with_new_key")
    assert (result.data, result.conflict) == (1, {"original_key": "k"})
    assert script.keys[0] == "k" != script.keys[1] == result.key
    again = Script(conflict, conflict).run(key="k", on_conflict="retry_with_new_key")
    assert again.attempts == 2
    assert isinstance(again.error, HapaxError)


@pytest.mark.parametrize(("choice", "keys"), [("fail", ["k"]), ("mine-2", ["k", "mine-2"])])
def test_a_function_can_decide_about_a_conflict(choice: str, keys: list[str]) -> None:
    seen: list[Conflict] = []

    def decide(conflict: Conflict) -> str:
        seen.append(conflict)
        return choice

    script = Script(refusal(409, "IDEMPOTENCY_CONFLICT", a=1), httpx.Response(200))
    script.run(key="k", on_conflict=decide)
    assert script.keys == keys
    assert seen == [Conflict("k", {"a": 1})]


def test_a_key_is_on_disk_before_it_is_sent_and_used_again_after_a_crash(tmp_path: Path) -> None:
    store = FileKeyStore(tmp_path)

    class Died(BaseException):
        pass

    def dies(key: str, attempt: int) -> httpx.Response:
        assert FileKeyStore(tmp_path).load("order/7") == key
        raise Died

    with pytest.raises(Died):
        with_idempotency_key(dies, store=store, name="order/7")
    kept = store.load("order/7")
    script = Script(httpx.Response(200))
    assert script.run(store=store, name="order/7", key="another").key == kept
    assert store.load("order/7") is None, "an answered request needs its key no more"
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_kept_while_nobody_knows_while_it_conflicts_and_while_the_credential_is_refused(
    tmp_path: Path,
) -> None:
    store = FileKeyStore(tmp_path)
    doubts = [httpx.Response(503), refusal(409, "IDEMPOTENCY_IN_DOUBT"), refusal(409, "IDEMPOTENCY_CONFLICT")]
    for step in (*doubts, *(refusal(status, "refused") for status in (401, 403, 407))):
        Script(step).run(store=store, name="n", key="k", retry=Retry(attempts=1))
        assert store.load("n") == "k"
    with pytest.raises(ValueError, match="name="):
        Script().run(store=store)


def test_a_damaged_key_file_is_not_taken_for_no_key(tmp_path: Path) -> None:
    store = FileKeyStore(tmp_path)
    store.save("n", "k")
    (file,) = tmp_path.iterdir()
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="holds no key"):
        store.load("n")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT", "date": "Wed, 21 Oct 2015 07:28:05 GMT"}, 5.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: Optional[float]) -> None:
    now = datetime(2015, 10, 21, 7, 28, 0, tzinfo=timezone.utc)
    assert retry_after(headers, now) == seconds


def test_the_wait_is_a_random_part_up_to_a_cap() -> None:
    retry = Retry(base_s=0.1, cap_s=1.0)
    assert [retry.wait(failed, None, 1.0) for failed in (1, 2, 4, 5, 90)] == [0.1, 0.2, 0.8, 1.0, 1.0]
    assert retry.wait(3, None, 0.0) == 0.0
    with pytest.raises(ValueError, match="attempts"):
        Retry(attempts=0)


def test_asyncio_does_the_same() -> None:
    script = Script(httpx.ReadTimeout("late"), httpx.Response(200, json=1))

    async def send(key: str, attempt: int) -> httpx.Response:
        return script.send(key, attempt)

    async def sleep(seconds: float) -> None:
        script.sleep(seconds)

    result = asyncio.run(async_with_idempotency_key(send, sleep=sleep, clock=lambda: script.now, chance=lambda: 1.0))
    assert (result.data, result.attempts, len(set(script.keys))) == (1, 2, 1)


def test_a_real_server_answers_a_second_post_with_the_first_answer(server: Server) -> None:
    def pay(amount: int, **options: Any) -> Result:
        headers = {"Authorization": f"Bearer {server.token}"}
        return post(f"{server.url}/v1/echo", json={"amount": amount}, headers=headers, **options)

    key = pay(10).key
    first, second, other = pay(10, key=key), pay(10, key=key), pay(99, key=key)
    assert first.replayed
    assert second.replayed
    assert first.data == second.data
    assert other.conflict is not None
    assert other.conflict["diff_summary"] == ["amount: '10' → '99'"]
    beside = pay(99, key=key, on_conflict="retry_with_new_key")
    assert beside.data["echo"] == {"amount": 99}
    assert beside.key != key

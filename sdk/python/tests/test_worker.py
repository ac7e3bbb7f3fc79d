"""Workers and effects: who runs a job, what is recorded, and what happens when a lease is lost."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from typing import Any, Callable, Optional

import httpx
import pytest

from hapax import (
    AsyncHapax,
    AsyncHeldJob,
    AsyncWorker,
    EffectFailed,
    EffectInDoubt,
    EffectInProgress,
    GiveUp,
    Hapax,
    HeldJob,
    LeaseLost,
    OpRun,
    RetryLater,
    Unknown,
    Worker,
    async_run_effect,
    job,
    op_key,
    run_effect,
)


@pytest.fixture
def kind() -> str:
    return f"k{uuid.uuid4().hex[:16]}"


def plan(client: Hapax, kind: str, work: str = "w", payload: Any = None, max_attempts: Optional[int] = None) -> str:
    planned = client.jobs.plan(
        work_id=work, artifact_id="a", canonical_url="u", kind=kind, payload=payload, max_attempts=max_attempts
    )
    return planned["job_id"]


def leased(client: Hapax, kind: str, ttl_s: float = 60) -> HeldJob:
    (found,) = client.jobs.lease(owner="test", kinds=[kind], ttl_s=ttl_s)
    return HeldJob(client, found, "test", ttl_s)


def test_a_worker_runs_every_job_once_and_records_its_result(client: Hapax, kind: str) -> None:
    ids = {plan(client, kind, str(number), {"n": number}) for number in range(7)}
    seen: list[int] = []

    @job(kind)
    def double(held: HeldJob) -> dict[str, int]:
        seen.append(held.payload["n"])
        return {"twice": 2 * held.payload["n"]}

    assert Worker(client, [double], concurrency=3, idle_s=0.05).run(until_idle=True) == 7
    assert sorted(seen) == list(range(7))
    jobs = list(client.jobs.list(kind=kind))
    assert {found["job_id"] for found in jobs} == ids
    assert {found["state"] for found in jobs} == {"INDEXED"}
    assert sorted(found["result"]["twice"] for found in jobs) == [0, 2, 4, 6, 8, 10, 12]


def test_an_error_fails_the_attempt_and_giving_up_ends_the_job(client: Hapax, kind: str) -> None:
    ids = {word: plan(client, kind, word) for word in ("error", "give up", "later")}

    @job(kind)
    def fails(held: HeldJob) -> None:
        if held.job["work_id"] == "error":
            raise ValueError("no luck")
        if held.job["work_id"] == "give up":
            raise GiveUp("never")
        raise RetryLater(1000, "not now")

    Worker(client, [fails], idle_s=0.05).run(until_idle=True)
    shown = {word: client.jobs.get(job_id) for word, job_id in ids.items()}
    assert (shown["error"]["state"], shown["error"]["error"]) == ("FAILED", "ValueError: no luck")
    assert (shown["give up"]["state"], shown["give up"]["error"]) == ("DEAD", "GiveUp: never")
    assert shown["later"]["state"] == "FAILED"
    assert (shown["later"]["available_at"] or "") > (shown["error"]["available_at"] or "")


def test_a_long_handler_keeps_its_lease_by_its_heartbeat(client: Hapax, kind: str) -> None:
    job_id = plan(client, kind)
    others: list[Any] = []

    @job(kind)
    def long(held: HeldJob) -> str:
        time.sleep(1.2)
        others.extend(client.jobs.lease(owner="thief", kinds=[kind]))
        return "kept"

    Worker(client, [long], ttl_s=0.5, idle_s=0.05).run(until_idle=True)
    assert others == []
    assert client.jobs.get(job_id)["result"] == "kept"


def test_nothing_is_written_under_a_lease_that_is_lost(client: Hapax, kind: str) -> None:
    plan(client, kind)
    thieves: list[HeldJob] = []

    @job(kind)
    def robbed(held: HeldJob) -> str:
        client.jobs.release(held.job_id, owner=held.owner, epoch=held.epoch)
        thieves.append(leased(client, kind))
        while not held.is_lost:
            time.sleep(0.01)
        with pytest.raises(LeaseLost, match="somebody else"):
            held.check()
        with pytest.raises(LeaseLost):
            held.run_effect("PAY", {}, lambda op: pytest.fail("it ran"))
        return "stale"

    Worker(client, [robbed], concurrency=1, ttl_s=0.5, idle_s=0.05).run(until_idle=True)
    shown = client.jobs.get(thieves[0].job_id)
    assert (shown["owner"], shown["result"], shown["ops"]) == ("test", None, [])
    assert shown["state"] not in ("INDEXED", "FAILED")


def test_a_worker_stops_when_what_runs_has_ended(client: Hapax, kind: str) -> None:
    first, second = plan(client, kind, "1"), plan(client, kind, "2")
    began, gate = threading.Event(), threading.Event()

    @job(kind)
    def slow(held: HeldJob) -> str:
        began.set()
        assert gate.wait(20)
        return "done"

    worker = Worker(client, [slow], concurrency=1, idle_s=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert began.wait(20)
    worker.stop()
    gate.set()
    thread.join(20)
    assert not thread.is_alive()
    assert {client.jobs.get(first)["state"], client.jobs.get(second)["state"]} == {"INDEXED", "PLANNED"}


def test_an_effect_runs_once_and_its_result_and_state_are_recorded_together(client: Hapax, kind: str) -> None:
    job_id = plan(client, kind)
    held = leased(client, kind)
    runs: list[str] = []

    def head(op: OpRun) -> dict[str, int]:
        runs.append(op.op_key)
        return {"size": 7}

    results = [run_effect(held, "HEAD", {"url": "u"}, head, "HEAD_DONE") for _ in range(2)]
    assert results == [{"size": 7}, {"size": 7}]
    shown = client.jobs.get(job_id)
    assert runs == [op_key("HEAD", shown["job_key"], url="u")]
    assert held.state == shown["state"] == "HEAD_DONE"


def test_an_effect_that_failed_runs_again_unless_it_failed_for_good(client: Hapax, kind: str) -> None:
    plan(client, kind)
    held = leased(client, kind)
    tries: list[int] = []

    def flaky(op: OpRun) -> str:
        tries.append(op.tries)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "ok"

    with pytest.raises(ValueError, match="not yet"):
        held.run_effect("TRY", {}, flaky)
    assert held.run_effect("TRY", {}, flaky) == "ok"

    def never(op: OpRun) -> None:
        raise GiveUp("never")

    with pytest.raises(GiveUp):
        held.run_effect("NEVER", {}, never)
    with pytest.raises(EffectFailed, match="never"):
        held.run_effect("NEVER", {}, never)


@pytest.mark.parametrize("error", [httpx.ReadTimeout("late"), Unknown("who knows")])
def test_an_effect_that_may_have_happened_is_in_doubt_until_somebody_knows(
    client: Hapax, kind: str, error: Exception
) -> None:
    plan(client, kind)
    held = leased(client, kind)

    def pay(op: OpRun) -> None:
        raise error

    with pytest.raises(EffectInDoubt):
        held.run_effect("PAY", {}, pay)
    with pytest.raises(EffectInProgress):
        held.run_effect("PAY", {}, pay)
    held.release()
    again = leased(client, kind)
    with pytest.raises(EffectInDoubt, match="resolve operation"):
        again.run_effect("PAY", {}, pay)
    assert again.run_effect("PAY", {}, pay, probe=lambda op: {"paid": op.op_key}) == {
        "paid": op_key("PAY", held.job["job_key"])
    }


def test_a_probe_that_finds_nothing_has_the_effect_run(client: Hapax, kind: str) -> None:
    plan(client, kind)
    first = leased(client, kind)
    client.ops.begin(job_id=first.job_id, kind="PAY", context={}, owner="test", epoch=first.epoch)
    first.release()
    again = leased(client, kind)
    assert again.run_effect("PAY", {}, lambda op: op.tries, probe=lambda op: None) == 2


def test_a_replayable_effect_simply_runs_again(client: Hapax, kind: str) -> None:
    plan(client, kind)
    first = leased(client, kind)
    with pytest.raises(httpx.ReadTimeout):
        first.run_effect("HEAD", {}, lambda op: (_ for _ in ()).throw(httpx.ReadTimeout("late")), op_class="replayable")
    assert first.run_effect("HEAD", {}, lambda op: 1, op_class="replayable") == 1


def test_a_worker_needs_handlers_with_different_kinds(client: Hapax) -> None:
    @job("a")
    def one(held: HeldJob) -> None:
        return None

    with pytest.raises(ValueError, match="needs handlers"):
        Worker(client)
    with pytest.raises(ValueError, match="two handlers"):
        Worker(client, [one, one])
    with pytest.raises(ValueError, match="has no kind"):
        Worker(client, [lambda held: None])
    with pytest.raises(ValueError, match="concurrency"):
        Worker(client, [one], concurrency=0)


def test_coroutines_are_run_and_cancelled_when_their_lease_is_lost(
    client: Hapax, kind: str, with_async: Callable[..., Any]
) -> None:
    good, robbed = plan(client, kind, "good"), plan(client, kind, "robbed")
    cancelled: list[str] = []

    async def test(asynchronous: AsyncHapax) -> None:
        @job(kind)
        async def handle(held: AsyncHeldJob) -> Any:
            if held.job["work_id"] == "good":
                return await async_run_effect(held, "ACT", {"n": 1}, act, "FINALIZED")
            await asynchronous.jobs.release(held.job_id, owner=held.owner, epoch=held.epoch)
            await asynchronous.jobs.lease(owner="thief", kinds=[kind])
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                cancelled.append(held.job_id)
                raise

        async def act(op: OpRun) -> dict[str, str]:
            return {"op": op.op_key}

        worker = AsyncWorker(asynchronous, [handle], concurrency=1, ttl_s=0.5, idle_s=0.05)
        assert await worker.run(until_idle=True) == 2

    with_async(test)
    shown = client.jobs.get(good)
    assert (shown["state"], shown["result"]) == ("INDEXED", {"op": op_key("ACT", shown["job_key"], n=1)})
    assert cancelled == [robbed]
    assert client.jobs.get(robbed)["owner"] == "thief"

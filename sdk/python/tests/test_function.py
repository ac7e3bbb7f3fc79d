"""`@idempotent`: a function that runs once per key."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any, Callable

import pytest

from hapax import AsyncHapax, Hapax, HapaxError, LeaseLost, async_idempotent, idempotent


def test_a_function_runs_once_per_key_and_gives_its_result_ever_after(client: Hapax) -> None:
    runs: list[int] = []

    @idempotent(client, key=lambda order, amount: order)
    def pay(order: str, amount: int) -> dict[str, Any]:
        runs.append(amount)
        return {"paid": amount, "at": time.time(), "big": 2**70}

    order = uuid.uuid4().hex
    assert pay(order, 10) == pay(order, amount=10)
    assert runs == [10]
    with pytest.raises(HapaxError) as caught:
        pay(order, 11)
    assert caught.value.code == "IDEMPOTENCY_CONFLICT"
    assert caught.value.details["diff_summary"] == ["amount: '10' → '11'"]


def test_without_a_key_it_is_derived_from_the_arguments(client: Hapax) -> None:
    runs: list[str] = []

    @idempotent(client, name="tests.greet")
    def greet(name: str, *, loud: bool = False) -> str:
        runs.append(name)
        return f"hello {name}"

    name = uuid.uuid4().hex
    assert [greet(name), greet(name, loud=False), greet(name, loud=True)] == [f"hello {name}"] * 3
    assert len(runs) == 2


def test_an_error_gives_the_key_back(client: Hapax) -> None:
    runs: list[str] = []

    @idempotent(client, key=uuid.uuid4().hex)
    def fails_once() -> int:
        runs.append("ran")
        if len(runs) == 1:
            raise OSError("down")
        return len(runs)

    with pytest.raises(OSError, match="down"):
        fails_once()
    assert (fails_once(), fails_once()) == (2, 2)


def test_a_call_that_runs_elsewhere_is_refused_or_waited_for(client: Hapax) -> None:
    began, gate = threading.Event(), threading.Event()
    key = uuid.uuid4().hex

    def slow() -> str:
        began.set()
        assert gate.wait(20)
        return "done"

    first = idempotent(client, key=key, lease_seconds=1)(slow)
    patient = idempotent(client, key=key, wait_s=20, lease_seconds=1)(slow)
    thread = threading.Thread(target=first)
    thread.start()
    assert began.wait(20)
    time.sleep(1.2)
    with pytest.raises(HapaxError) as caught:
        first()
    assert caught.value.code == "IDEMPOTENCY_IN_PROGRESS"
    assert caught.value.retryable
    threading.Timer(0.2, gate.set).start()
    assert patient() == "done"
    thread.join()


def test_what_is_not_json_is_refused_before_or_in_doubt_after(client: Hapax) -> None:
    @idempotent(client, key=uuid.uuid4().hex)
    def odd() -> Any:
        return {1, 2}

    @idempotent(client)
    def takes(value: Any) -> None:
        return None

    with pytest.raises(TypeError, match="not JSON"):
        takes(object())
    assert takes(None) is None
    with pytest.raises(TypeError, match="could not be recorded"):
        odd()
    with pytest.raises(HapaxError) as caught:
        odd()
    assert (caught.value.code, caught.value.details) == ("IDEMPOTENCY_IN_DOUBT", {"reason": "response_not_stored"})


def test_a_result_too_large_to_keep_is_given_once(client: Hapax) -> None:
    @idempotent(client, key=uuid.uuid4().hex)
    def large() -> str:
        return "x" * 2_000_000

    assert len(large()) == 2_000_000
    with pytest.raises(HapaxError, match="could not be kept"):
        large()


def test_a_result_that_was_recorded_is_given_though_the_answer_got_lost(
    client: Hapax, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = client.keys.complete

    def loses_its_answer(*args: Any, **kwargs: Any) -> Any:
        complete(*args, **kwargs)
        raise LeaseLost("lease_lost", "told again after a renewal")

    @idempotent(client, key=uuid.uuid4().hex)
    def pay() -> str:
        return "paid"

    monkeypatch.setattr(client.keys, "complete", loses_its_answer)
    assert pay() == "paid"


def test_coroutines_can_be_idempotent_too(with_async: Callable[..., Any]) -> None:
    async def test(client: AsyncHapax) -> None:
        runs: list[int] = []

        @async_idempotent(client, key=uuid.uuid4().hex)
        async def pay(amount: int) -> int:
            runs.append(amount)
            return amount

        assert [await pay(1), await pay(1)] == [1, 1]
        assert runs == [1]

    with_async(test)

"""Sends a request under one key until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Callable, Optional

import httpx

from ..errors import Unavailable
from ..key_store import KeyStore
from ..retry import Retry
from ..sending import (
    DEADLINE_S,
    NETWORK_ERRORS,
    UNSET,
    OnConflict,
    Plan,
    Response,
    Result,
    Verdict,
    jitter,
    judge,
    monotonic,
)

AsyncSend = Callable[[str, int], Awaitable[Response]]


async def async_with_idempotency_key(
    send: AsyncSend,
    *,
    key: Optional[str] = None,
    derive: Any = UNSET,
    store: Optional[KeyStore] = None,
    name: Optional[str] = None,
    retry: Optional[Retry] = None,
    deadline: Optional[float] = DEADLINE_S,
    on_conflict: OnConflict = "fail",
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = monotonic,
    chance: Callable[[], float] = jitter,
) -> Result:
    """Calls `send(key, attempt)` until there is an answer, always with the same key.

    The key is `key`, else the fingerprint of `derive`, else a new UUIDv7. With a `store` it is kept under `name`
    before the first send, and a key that is there already is used again. Network errors, 408, 425, 429, 5xx and
    IDEMPOTENCY_IN_PROGRESS are tried again, not before `Retry-After` says, until `retry.attempts` or `deadline`
    seconds are over; a try that is under way is not cut off, so give your client a timeout. Nothing else is: other refusals stay refusals, and what is in doubt needs a person.

    `on_conflict` is "fail", "retry_with_new_key" (one more send, which acts beside the first request) or a function
    that answers one of the two or a key. Refusals are in the result; only your own errors are raised.
    """
    plan = Plan(
        key=key,
        derive=derive,
        store=store,
        name=name,
        retry=retry or Retry(),
        deadline=deadline,
        on_conflict=on_conflict,
        clock=clock,
        chance=chance,
    )
    while True:
        plan.attempts += 1
        try:
            verdict = judge(await send(plan.key, plan.attempts), plan.key, plan.attempts)
        except NETWORK_ERRORS as error:
            lost = Unavailable(f"no answer after {plan.attempts} tries: {error!r}; try again with key {plan.key}")
            lost.__cause__ = error
            verdict = Verdict(Result(error=lost, key=plan.key, attempts=plan.attempts), again=True)
        if plan.takes_new_key(verdict.result):
            continue
        wait = plan.again(verdict.after) if verdict.again else None
        if wait is None:
            return plan.ended(verdict)
        await sleep(wait)


async def async_post(
    url: str,
    *,
    json: Any,
    headers: Optional[Mapping[str, str]] = None,
    http: Optional[httpx.AsyncClient] = None,
    timeout: float = 30.0,
    **options: Any,
) -> Result:
    """Posts JSON under a key; `options` are those of `async_with_idempotency_key`."""
    client = http or httpx.AsyncClient(timeout=timeout)
    try:

        async def send(key: str, attempt: int) -> Response:
            return await client.post(url, json=json, headers={**(headers or {}), "Idempotency-Key": key})

        return await async_with_idempotency_key(send, **options)
    finally:
        if http is None:
            await client.aclose()

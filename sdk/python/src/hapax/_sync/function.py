# Made by tools/make_sync from _async; change it there.
"""`@idempotent`: a function that runs once per key, and gives its recorded result ever after."""

from __future__ import annotations

import time
import functools
import logging
from typing import Any, Callable, Optional, TypeVar, cast

from ..door import LEASE_SECONDS
from ..errors import Error, HapaxError, LeaseLost
from ..function import KeyOf, call_body, call_key, call_path, recorded, result_body
from ..heartbeat import Heartbeat
from ..sending import monotonic
from ..shapes import Claim
from .client import Hapax

T = TypeVar("T")
Function = Callable[..., T]
_POLL_S = 0.1
_log = logging.getLogger("hapax")


def idempotent(
    client: Hapax,
    *,
    key: KeyOf = None,
    name: Optional[str] = None,
    ttl_seconds: Optional[int] = None,
    lease_seconds: int = LEASE_SECONDS,
    wait_s: float = 0.0,
) -> Callable[[Function[T]], Function[T]]:
    """Makes a function run once per key. Arguments and result must be JSON.

    `key` is a text, a function of the arguments, or None to derive it from them. An error gives the key back, so the
    next call runs. The same key with other arguments raises HapaxError IDEMPOTENCY_CONFLICT; a call that runs
    elsewhere is waited for `wait_s` seconds, then raises IDEMPOTENCY_IN_PROGRESS. If the process dies while the
    function runs, the next call after the lease runs it again: what it did to the world may then happen twice.
    """

    def decorate(function: Function[T]) -> Function[T]:
        where = call_path(function, name)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> T:
            asked: dict[str, Any] = {
                "method": "POST",
                "path": where,
                "key": call_key(key, args, kwargs),
                "body": call_body(function, args, kwargs),
                "ttl_seconds": ttl_seconds,
                "lease_seconds": lease_seconds,
            }
            claim = _claimed(client, asked, wait_s)
            if claim["action"] != "process":
                return cast(T, recorded(claim))
            result, token = _run(client, claim, lease_seconds, functools.partial(function, *args, **kwargs))
            body = result_body(result)
            try:
                _record(client, claim["id"], token, body)
            except LeaseLost:
                # Recorded by somebody else, or by us if the answers to a renewal and to the complete got lost:
                # everyone gets what is recorded.
                again = client.keys.claim(**asked)
                if again["action"] == "process":
                    client.keys.release(again["id"], token=again["token"])
                    raise
                return cast(T, recorded(again))
            if body is None:
                raise TypeError("the call was made, but its result is not JSON and could not be recorded; return JSON")
            return result

        return called

    return decorate


def _claimed(client: Hapax, asked: dict[str, Any], wait_s: float) -> Claim:
    ends_at = monotonic() + wait_s
    while True:
        claim = client.keys.claim(**asked)
        if claim["action"] != "in_progress" or monotonic() >= ends_at:
            return claim
        time.sleep(min(_POLL_S, max(0.0, ends_at - monotonic())))


def _run(client: Hapax, claim: Claim, lease_seconds: int, call: Callable[[], T]) -> tuple[T, str]:
    """Calls under the lease. The result, and the token of the last renewal."""
    token = claim["token"]

    def renew() -> bool:
        nonlocal token
        try:
            renewed = client.keys.renew(claim["id"], token=token)
            # Only with the newest token is a complete that is sent twice known to be the same.
            token = renewed["token"]
        except LeaseLost:
            return False
        except Error as error:
            _log.warning("the lease of key %s was not renewed: %s", claim["key"], error)
        return True

    try:
        with Heartbeat(renew, lease_seconds / 3):
            result = call()
    except BaseException:
        try:
            client.keys.release(claim["id"], token=token)
        except Error as why:
            # What the function raised is what its caller wants to know.
            _log.warning("key %s was not given back, and is free when its lease ends: %s", claim["key"], why)
        raise
    return result, token


def _record(client: Hapax, key_id: str, token: str, body: Optional[dict[str, Any]]) -> None:
    """Records a result, or only that there was one."""
    if body is not None:
        try:
            client.keys.complete(key_id, token=token, status=200, body=body)
            return
        except HapaxError as error:
            if error.code != "payload_too_large":
                raise
    client.keys.complete(key_id, token=token, status=200, stored=False)

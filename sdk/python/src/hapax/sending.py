"""Sends a request under one key until there is an answer. The decisions; who sleeps and sends is in `_async` and `_sync`."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Protocol, Union

import httpx

from .canonical import fingerprint
from .errors import Error, HapaxError, error_of
from .key_store import KeyStore
from .keys import uuid7
from .retry import Retry, retry_after

DEADLINE_S = 60.0
NETWORK_ERRORS: tuple[type[BaseException], ...] = (httpx.TransportError, OSError, TimeoutError)


class Response(Protocol):
    """What a send function returns: an httpx or a requests response fits."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...


@dataclass(frozen=True)
class Result:
    """What came of a request. Either `error` is None, or `data` is."""

    data: Any = None
    error: Optional[Error] = None
    status: Optional[int] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    replayed: bool = False
    conflict: Optional[dict[str, Any]] = None
    key: str = ""
    attempts: int = 0

    def unwrap(self) -> Any:
        """The data, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.data


@dataclass(frozen=True)
class Conflict:
    """A conflict, for the function that decides about it. `details` are those of the 409."""

    key: str
    details: dict[str, Any]


# What such a function answers: "fail", "retry_with_new_key", or the key to go on with.
OnConflict = Union[str, Callable[[Conflict], str]]


class _Unset:
    """Nothing was given; None is a payload."""


UNSET = _Unset()


@dataclass(frozen=True)
class Verdict:
    """What an answer means: the result, or how long to wait before the next try."""

    result: Result
    again: bool = False
    after: Optional[float] = None


def judge(response: Response, key: str, attempts: int) -> Verdict:
    """What a response means for the request."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    status = response.status_code
    replayed = any(headers.get(name, "").lower() == "true" for name in ("idempotency-replayed", "x-idempotency-replay"))
    common: dict[str, Any] = {"status": status, "headers": headers, "replayed": replayed, "key": key}
    if status < 400:
        return Verdict(Result(data=_data(headers, response.content), attempts=attempts, **common))
    error = error_of(status, headers, response.content)
    code = error.code if isinstance(error, HapaxError) else ""
    conflict = None
    if code == "IDEMPOTENCY_CONFLICT" or "x-idempotency-conflict" in headers:
        conflict = error.details if isinstance(error, HapaxError) else {}
    result = Result(error=error, conflict=conflict, attempts=attempts, **common)
    if conflict is not None or code == "IDEMPOTENCY_IN_DOUBT":
        return Verdict(result)
    # What was recorded is answered every time, so asking again is in vain.
    again = code == "IDEMPOTENCY_IN_PROGRESS" or ((status in (408, 425, 429) or status >= 500) and not replayed)
    return Verdict(result, again=again, after=retry_after(headers) if again else None)


def _data(headers: Mapping[str, str], content: bytes) -> Any:
    media_type = headers.get("content-type", "").split(";")[0].strip().lower()
    if content and (media_type == "application/json" or media_type.endswith("+json")):
        return json.loads(content)
    return content or None


class Plan:
    """One request on its way: its key, its tries and its time. It decides and touches the key store, nothing else."""

    def __init__(
        self,
        *,
        key: Optional[str],
        derive: Any,
        store: Optional[KeyStore],
        name: Optional[str],
        retry: Retry,
        deadline: Optional[float],
        on_conflict: OnConflict,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        if isinstance(on_conflict, str) and on_conflict not in ("fail", "retry_with_new_key"):
            raise ValueError('on_conflict must be "fail", "retry_with_new_key" or a function')
        if store is not None and not name:
            raise ValueError("a key store needs a name for what is sent: pass name=")
        if key is not None and derive is not UNSET:
            raise ValueError("give a key or derive one, not both")
        self._store, self._name, self._retry, self._on_conflict = store, name or "", retry, on_conflict
        self._clock, self._chance = clock, chance
        self._ends_at = None if deadline is None else clock() + deadline
        self._conflict: Optional[dict[str, Any]] = None
        self.attempts = 0
        if key is not None and not re.fullmatch(r"[\x21-\x7e]{1,255}", key):
            raise ValueError("a key is 1 to 255 visible ASCII characters")
        made = key if key is not None else (uuid7() if derive is UNSET else fingerprint(derive))
        self.key = self._kept(made)

    def _kept(self, made: str) -> str:
        if self._store is None:
            return made
        # It may have been sent already, so it counts for more than what is asked for now.
        kept = self._store.load(self._name)
        if kept is None:
            self._store.save(self._name, made)
        return kept or made

    def again(self, after: Optional[float]) -> Optional[float]:
        """Seconds to wait before the next try, or None if there is none."""
        if self.attempts >= self._retry.attempts:
            return None
        wait = self._retry.wait(self.attempts, after, self._chance())
        if self._ends_at is not None and self._clock() + wait >= self._ends_at:
            return None
        return wait

    def takes_new_key(self, result: Result) -> bool:
        """Whether a conflict is answered by one more send, under another key."""
        if result.conflict is None or self._conflict is not None:
            return False
        choice = self._on_conflict
        if callable(choice):
            choice = choice(Conflict(self.key, result.conflict))
        if choice == "fail":
            return False
        self.key = uuid7() if choice == "retry_with_new_key" else choice
        self._conflict = result.conflict
        if self._store is not None:
            self._store.save(self._name, self.key)
        return True

    def ended(self, verdict: Verdict) -> Result:
        """The result for the caller. A stored key is forgotten when the answer is final."""
        result = verdict.result
        is_final = not verdict.again and result.conflict is None and result.status is not None
        # A refused credential says nothing of the request: it may have run before, under this very key.
        is_final = is_final and (result.replayed or result.status not in (401, 403, 407))
        code = result.error.code if isinstance(result.error, HapaxError) else ""
        if self._store is not None and is_final and code != "IDEMPOTENCY_IN_DOUBT":
            self._store.clear(self._name)
        if self._conflict is not None and result.conflict is None:
            return Result(**{**result.__dict__, "conflict": self._conflict})
        return result


def jitter() -> float:
    """A random number from 0 to 1. This is spread, not secrecy."""
    return random.random()


def monotonic() -> float:
    """The clock that deadlines are measured with."""
    return time.monotonic()

"""What a call to the server is, and what its answer means. Who sends it is in `_async` and `_sync`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional
from urllib.parse import quote

from .errors import Error, HapaxError, Unavailable

NO_TOKEN = (
    "HAPAX_TOKEN is not set; set it to a token of the server (`hapax token create` makes one), or pass token=…; "
    'for a server that runs with --insecure-no-auth pass token=""'
)
URL_DEFAULT = "http://127.0.0.1:8088"
TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True)
class Call:
    """One request. `repeatable` says that a second one, after a lost answer, does no harm."""

    method: str
    path: str
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    has_body: bool = True


def path(*parts: object) -> str:
    """A path of these parts, each escaped."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def given(**members: Any) -> dict[str, Any]:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def to_json(value: Any) -> bytes:
    """The body of a request. Numbers keep all their digits; NaN and Infinity are refused."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def query_of(call: Call) -> dict[str, str]:
    """The query of a call, as the server spells it."""
    words = {True: "true", False: "false"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in call.query.items()
        if value is not None
    }


def settings(base_url: Optional[str], token: Optional[str]) -> tuple[str, dict[str, str]]:
    """Where to send to, and the headers of every request. HAPAX_URL and HAPAX_TOKEN stand in for what is not given; an
    empty token is given too, for servers that take none."""
    url = base_url or os.environ.get("HAPAX_URL") or URL_DEFAULT
    secret = os.environ.get("HAPAX_TOKEN") if token is None else token
    headers = {"Accept": "application/json", "User-Agent": "hapax-python/0.1.0"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    return url.rstrip("/"), headers


def no_token() -> HapaxError:
    """No token was given, and the server takes nobody without one."""
    return HapaxError("unauthorized", NO_TOKEN, status=401)


def is_repeated(call: Call, error: Error, *, was_sent: bool) -> bool:
    """Whether a failed call is sent again."""
    if isinstance(error, HapaxError):
        # The server did nothing and says when to ask again.
        return error.status == 429
    return isinstance(error, Unavailable) and (call.repeatable or not was_sent)

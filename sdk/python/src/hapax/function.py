"""How a function call becomes a request under a key. Who claims and calls is in `_async` and `_sync`."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional, Union
from urllib.parse import quote

from .canonical import CanonicalError, canonical
from .errors import HapaxError
from .shapes import Claim

KeyOf = Union[str, Callable[..., str], None]


def call_path(function: Callable[..., Any], name: Optional[str]) -> str:
    """The path that stands for the function: calls of different functions never meet."""
    told = name or f"{function.__module__}.{function.__qualname__}"
    return "/functions/" + quote(told, safe=".-_~")


def call_key(key: KeyOf, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Optional[str]:
    """The key of this call; None has the server derive it from the arguments."""
    return key(*args, **kwargs) if callable(key) else key


def call_body(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, as they are compared. They must be JSON."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    named = {name: list(value) if isinstance(value, tuple) else value for name, value in bound.arguments.items()}
    try:
        canonical(named)
    except CanonicalError as error:
        raise TypeError(f"{function.__qualname__} takes an argument that is not JSON: {error}") from error
    return named


def recorded(claim: Claim) -> Any:
    """The recorded result, or the refusal that the claim stands for."""
    action, key = claim["action"], claim["key"]
    if action == "replay":
        body = claim["response"].get("body")
        return body["result"] if isinstance(body, dict) else None
    if action == "conflict":
        message = f"key {key} stands for a call with other arguments; use another key for another call"
        raise HapaxError("IDEMPOTENCY_CONFLICT", message, details=claim.get("conflict"), status=409)
    if action == "in_progress":
        message = f"key {key} is being worked on; call again in a second"
        raise HapaxError("IDEMPOTENCY_IN_PROGRESS", message, status=409, retryable=True)
    if action == "erased":
        raise HapaxError("erased", f"what was recorded under key {key} is erased; use another key", status=410)
    reason = claim.get("reason")
    if reason == "response_not_stored":
        message = f"the call under key {key} was made, and its result could not be kept"
    else:
        message = f"the call under key {key} was begun and nobody knows its outcome; settle or release the key"
    raise HapaxError("IDEMPOTENCY_IN_DOUBT", message, details={"reason": reason}, status=409)


def result_body(result: Any) -> Optional[dict[str, Any]]:
    """The result as it is recorded; None if it is not JSON."""
    try:
        canonical(result)
    except CanonicalError:
        return None
    return {"result": result}

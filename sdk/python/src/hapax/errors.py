"""What can go wrong: a refusal, which says whether a retry can help, or that nobody could find out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

_TRANSIENT = frozenset({408, 425, 429})
# The server says with these codes that it could not find out.
_UNKNOWN = frozenset({"store_unavailable", "shutting_down", "internal", "request_timeout"})


class Error(Exception):
    """Anything that this package raises about a server's answer, or about the lack of one."""


class HapaxError(Error):
    """A refusal. The same call gives the same refusal, unless `retryable`."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Optional[Mapping[str, Any]] = None,
        trace_id: Optional[str] = None,
        status: Optional[int] = None,
        retryable: bool = False,
    ) -> None:
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.trace_id = trace_id
        self.status = status
        self.retryable = retryable
        super().__init__(f"{code}: {message}{_faults(self.details)}" + (f" (trace {trace_id})" if trace_id else ""))


def _faults(details: Mapping[str, Any]) -> str:
    """The first faults of a request that has not the right form."""
    faults = details.get("errors")
    if not isinstance(faults, list):
        return ""
    told = [f"{fault.get('path')} {fault.get('message')}" for fault in faults if isinstance(fault, dict)]
    return f" [{'; '.join(told[:5])}]" if told else ""


class Unavailable(Error):
    """Nobody could find out: no connection, no answer in time, or a server whose store does not answer.

    What was asked may or may not have happened. Ask again with the same key.
    """

    def __init__(self, message: str, *, status: Optional[int] = None, retry_after: Optional[float] = None) -> None:
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.retryable = True
        super().__init__(message)


class LeaseLost(HapaxError):
    """Somebody else holds the key or the job now. Write nothing more under the old lease."""


class StateTransitionDenied(HapaxError, RuntimeError):
    """The job cannot go there from where it is; `details` say have, wants and from."""


class EffectInProgress(HapaxError):
    """Another runner of the same job is at this operation."""


class EffectInDoubt(HapaxError):
    """The operation was begun and nobody knows whether it happened. Ask the world, then `ops.resolve`."""


class EffectFailed(HapaxError):
    """The operation failed for good; `details["error"]` says why."""


class GiveUp(Exception):
    """Raise it in a handler or an effect to say that no try can help."""


class RetryLater(Exception):
    """Raise it in a handler to fail this attempt and rest for at least `seconds`."""

    def __init__(self, seconds: float, message: str = "asked to be tried later") -> None:
        self.seconds = seconds
        super().__init__(message)


class Unknown(Exception):
    """Raise it in an effect that may or may not have happened: it stays unsettled, and is in doubt."""


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> Error:
    """The error that a response of 400 and more stands for, in both forms that a refusal can have."""
    told = _told(body)
    code = told["code"] if isinstance(told.get("code"), str) else ""
    trace_id = told.get("trace_id") or headers.get("x-trace-id")
    if code in _UNKNOWN or (status >= 500 and not code):
        said = f": {told['message']}" if told.get("message") else ""
        return Unavailable(f"the server answered {status}{said}; try again with the same key", status=status)
    kind = {"lease_lost": LeaseLost, "state_transition_denied": StateTransitionDenied}.get(code, HapaxError)
    details = told.get("details")
    is_transient = status in _TRANSIENT or code == "IDEMPOTENCY_IN_PROGRESS"
    return kind(
        code or f"http_{status}",
        str(told.get("message") or f"the server answered {status}"),
        details=details if isinstance(details, dict) else {},
        trace_id=trace_id if isinstance(trace_id, str) else None,
        status=status,
        retryable=is_transient or (status >= 500 and "retry-after" in headers),
    )


def _told(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    error = document.get("error")
    if isinstance(error, dict):
        # RFC 9457 has the details beside the error, the envelope within it.
        details = error.get("details", document.get("details"))
        return {**error, "details": details, "trace_id": document.get("trace_id", error.get("trace_id"))}
    if "code" in document:
        return {**document, "message": document.get("detail") or document.get("title")}
    return {}

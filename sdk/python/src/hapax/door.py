"""What a middleware answers by itself, and what it records: the rules of the table, without any framework or I/O."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Optional, Union

from .errors import HapaxError
from .shapes import Claim

KEYED_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# What the remote API takes in one request is 1 MiB, and base64 adds a third.
BODY_BYTES_MAX = 700 * 1024
LEASE_SECONDS = 60
# "Try again", and a credential that was refused: the next one may be good.
RELEASED_STATUSES = frozenset({401, 403, 407, 408, 425, 429})
REPLAY_HEADERS = (("X-Idempotency-Replay", "true"), ("Idempotency-Replayed", "true"))

_STORED = frozenset(
    {
        "content-type",
        "content-language",
        "content-encoding",
        "location",
        "etag",
        "last-modified",
        "link",
        "cache-control",
        "retry-after",
    }
)
_NEVER_STORED = frozenset(
    {
        "set-cookie",
        "authorization",
        "authentication-info",
        "date",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
    }
)
_QUOTED = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Options:
    """How a middleware behaves.

    `required`: refuse a keyed method that has no key. `derive`: make a key from the request where there is none.
    `on_lost`: "retry" runs a request again whose runner died, "hold" leaves it to an operator.
    `store_headers`: more response headers to keep; the server's route must list them too, or it drops them.
    `fail_open`: run without protection while hapax cannot be reached; off, because that may act twice.
    """

    required: bool = False
    derive: bool = False
    wait_ms: int = 0
    on_lost: str = "retry"
    lease_seconds: int = LEASE_SECONDS
    ttl_seconds: Optional[int] = None
    max_body_bytes: int = BODY_BYTES_MAX
    max_response_bytes: int = BODY_BYTES_MAX
    mismatch_status: int = 409
    store_headers: frozenset[str] = field(default_factory=frozenset)
    fail_open: bool = False

    def __post_init__(self) -> None:
        if self.on_lost not in ("retry", "hold"):
            raise ValueError('on_lost must be "retry" or "hold"')
        if self.mismatch_status not in (409, 422):
            raise ValueError("mismatch_status must be 409 or 422")
        if self.lease_seconds < 1 or self.wait_ms < 0:
            raise ValueError("lease_seconds must be at least 1, and wait_ms not negative")
        for name in ("max_body_bytes", "max_response_bytes"):
            if not 0 < getattr(self, name) <= BODY_BYTES_MAX:
                raise ValueError(f"{name} must be from 1 to {BODY_BYTES_MAX}: hapax is sent no more over its API")


@dataclass(frozen=True)
class Asked:
    """A request that is to run under a key. Without a key the server derives one, for this principal if there is one."""

    method: str
    path: str
    key: Optional[str]
    body: bytes
    content_type: str
    trace_id: str
    wants_problem: bool = False
    principal: Optional[str] = None


@dataclass(frozen=True)
class Answer:
    """A response, whole."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Unkept:
    """A response that goes through and cannot be kept, because it is too large or has no end to wait for."""

    status: int


@dataclass
class Granted:
    """The right to run, until the lease is over. `token` is that of the last renewal, or of the claim."""

    asked: Asked
    claim: Claim
    token: str = field(init=False)

    def __post_init__(self) -> None:
        self.token = self.claim["token"]

    @property
    def key_id(self) -> str:
        return self.claim["id"]


class KeyRefused(Exception):
    """The header is no key; the text says why."""


def derived_for(principal: Optional[str], authorization: Sequence[str]) -> Optional[str]:
    """Who a derived key is for: the principal, else whoever has the credential. Hapax is sent a hash of either."""
    if principal:
        return hashlib.sha256(principal.encode("utf-8")).hexdigest()
    if any(authorization):
        return "authorization:" + hashlib.sha256("\n".join(authorization).encode("utf-8")).hexdigest()
    return None


def key_of(values: Sequence[str], principal: Optional[str] = None) -> Optional[str]:
    """The key that the header carries, bare or as a quoted string; `"k"` and `k` are the same key.

    With a principal, keys of different principals never meet: what one of them was answered is nobody else's business.
    """
    if not values:
        return None
    if len(values) > 1:
        raise KeyRefused("the Idempotency-Key header came more than once; send one")
    text = values[0].strip(" \t")
    if text.startswith('"'):
        match = _QUOTED.fullmatch(text)
        if not match:
            raise KeyRefused("the Idempotency-Key header begins with a quote but is not a quoted string")
        text = re.sub(r"\\(.)", r"\1", match.group(1))
    if not re.fullmatch(r"[\x21-\x7e]{1,255}", text):
        raise KeyRefused("the Idempotency-Key header is not a key; use 1 to 255 visible ASCII characters")
    if principal is None:
        return text
    owner = hashlib.sha256(principal.encode("utf-8")).hexdigest()[:32]
    whole = f"{owner}:{text}"
    return whole if len(whole) <= 255 else f"{owner}:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def trace_id_of(traceparent: Optional[str]) -> str:
    """The trace id that the request carries, or a new one."""
    match = _TRACEPARENT.fullmatch((traceparent or "").strip())
    if match and match.group(1).strip("0"):
        return match.group(1)
    return uuid.uuid4().hex


def sent_body(body: bytes) -> dict[str, str]:
    """A body inside JSON: as text where that is exact and shorter, else in base64."""
    encoded = base64.b64encode(body).decode("ascii")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return {"body_base64": encoded}
    if len(json.dumps(text, ensure_ascii=False)) > len(encoded) + 16:
        return {"body_base64": encoded}
    return {"body": text}


def is_final(status: int) -> bool:
    """Whether an answer with this status is recorded. Any other gives the key back."""
    return status < 500 and status not in RELEASED_STATUSES


def stored_headers(headers: Iterable[tuple[str, str]], options: Options) -> dict[str, str]:
    """The headers that are recorded and replayed. Secrets and framing never are."""
    kept: dict[str, str] = {}
    wanted = _STORED | {name.lower() for name in options.store_headers}
    for name, value in headers:
        low = name.lower()
        is_secret = low in _NEVER_STORED or low.endswith("-authenticate") or low.startswith("proxy-")
        if low in wanted and not is_secret:
            kept[low] = f"{kept[low]}, {value}" if low in kept else value
    return kept


def kept(answer: Union[Answer, Unkept], options: Options) -> Union[Answer, Unkept]:
    """The answer as far as it can be kept."""
    if isinstance(answer, Answer) and len(answer.body) > options.max_response_bytes:
        return Unkept(answer.status)
    return answer


def completion(answer: Union[Answer, Unkept], options: Options) -> dict[str, Any]:
    """What is sent to record an answer."""
    if isinstance(answer, Unkept):
        return {"status": answer.status, "stored": False}
    return {
        "status": answer.status,
        "headers": stored_headers(answer.headers, options),
        **sent_body(answer.body),
    }


def replayed(claim: Claim) -> Answer:
    """The recorded answer, marked as a replay."""
    response = claim["response"]
    status, headers = response["status"], [*response["headers"].items(), *REPLAY_HEADERS]
    if "body_base64" in response:
        return Answer(status, headers, base64.b64decode(response["body_base64"]))
    body = response.get("body", "")
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return Answer(status, headers, text.encode("utf-8"))


def refusal(
    asked: Asked,
    status: int,
    code: str,
    message: str,
    details: Optional[Mapping[str, Any]] = None,
    headers: Headers = (),
) -> Answer:
    """A refusal in the one envelope, or as RFC 9457 where the caller asks for it."""
    told: dict[str, Any]
    if asked.wants_problem:
        media_type = "application/problem+json"
        told = {
            "type": f"urn:hapax:error:{code}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": message,
            "code": code,
            "details": dict(details or {}),
            "error": {"code": code, "message": message, "type": "idempotency_error"},
            "trace_id": asked.trace_id,
        }
    else:
        media_type = "application/json"
        told = {
            "error": {"code": code, "message": message, "details": dict(details or {})},
            "trace_id": asked.trace_id,
        }
    body = json.dumps(told, ensure_ascii=False).encode("utf-8")
    return Answer(status, [("content-type", media_type), ("x-trace-id", asked.trace_id), *headers], body)


def conflict(asked: Asked, claim: Claim, options: Options) -> Answer:
    """The same key for another request."""
    headers = [("x-idempotency-conflict", "body-mismatch")]
    details = dict(claim.get("conflict", {}))
    return refusal(
        asked, options.mismatch_status, "IDEMPOTENCY_CONFLICT", _difference(details.get("differs")), details, headers
    )


def _difference(differs: Any) -> str:
    """The sentence that names the parts in which a request differs from the first one."""
    names = [str(name).replace("_", " ") for name in differs or ()]
    if names in ([], ["body"]):
        return "Request body differs from original request with same idempotency key"
    if len(names) == 1:
        return f"the request's {names[0]} differs from the first one's under the same idempotency key"
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"the request's {listed} differ from the first one's under the same idempotency key"


def in_progress(asked: Asked, claim: Claim) -> Answer:
    """Somebody is running it."""
    seconds = max(1, int(claim.get("retry_after", 1)))
    details = {"key": claim["key"], "lease_seconds_left": claim.get("lease_seconds_left", 0)}
    message = f"key {claim['key']} is being worked on; retry after {seconds} s"
    return refusal(asked, 409, "IDEMPOTENCY_IN_PROGRESS", message, details, [("retry-after", str(seconds))])


def in_doubt(asked: Asked, claim: Claim, reason: str) -> Answer:
    """It may have happened."""
    if reason == "response_not_stored":
        message = "the request was carried out; its answer could not be kept and went to its first caller only"
    else:
        message = "the request was started and its outcome is unknown; an operator must settle or release the key"
    details = {"key": claim["key"], "reason": reason}
    if "why" in claim:
        details["why"] = claim["why"]
    return refusal(asked, 409, "IDEMPOTENCY_IN_DOUBT", message, details)


def erased(asked: Asked) -> Answer:
    """It was used, and what was stored under it is gone on purpose."""
    message = "the key was used and what was stored under it is erased; use another key for another operation"
    return refusal(asked, 410, "erased", message)


def key_required(asked: Asked) -> Answer:
    """The request carries no key, and needs one."""
    message = f"{asked.method} {asked.path.split('?')[0]} needs an Idempotency-Key header; send one that is new for each operation"
    return refusal(asked, 400, "idempotency_key_required", message)


def principal_required(asked: Asked) -> Answer:
    """The request brings cookies and nothing says who sends it: a derived key would be that of everybody who sends it."""
    where = f"{asked.method} {asked.path.split('?')[0]}"
    message = (
        f"the key of {where} is derived, this request brings cookies, and nothing says who sends it; "
        "set principal in the middleware, or send an Idempotency-Key"
    )
    return refusal(asked, 400, "principal_required", message, {"setting": "principal"})


def key_invalid(asked: Asked, why: str) -> Answer:
    """What came as a key is none."""
    return refusal(asked, 400, "idempotency_key_invalid", why)


def body_too_large(asked: Asked, bytes_max: int) -> Answer:
    """More than can be compared."""
    message = f"a request with an Idempotency-Key may have a body of at most {bytes_max} bytes"
    return refusal(asked, 413, "payload_too_large", message, {"max_bytes": bytes_max})


def refused_claim(asked: Asked, error: HapaxError) -> Answer:
    """Hapax does not take the claim. What is wrong with the key is the caller's; anything else is ours."""
    callers = {"idempotency_key_invalid", "idempotency_key_required", "payload_too_large"}
    if error.code in callers and error.status:
        return refusal(asked, error.status, error.code, error.message, error.details)
    return unavailable(asked, "refused")


def unavailable(asked: Asked, reason: str = "unreachable") -> Answer:
    """Nobody can say whether this ran before, so it does not run."""
    message = "the store of idempotency keys cannot be asked, so nothing was run; retry with the same key"
    return refusal(asked, 503, "store_unavailable", message, {"reason": reason}, [("retry-after", "1")])


def not_recorded(asked: Asked) -> Answer:
    """It ran, and its answer could not be recorded."""
    message = "the request was carried out, but its answer could not be recorded; retry with the same key"
    return refusal(asked, 503, "store_unavailable", message, {"reason": "outcome_unknown"}, [("retry-after", "1")])


def marked_expired(answer: Answer, claim: Claim) -> Answer:
    """Says that the key had been used before, long ago."""
    if not claim["expired"]:
        return answer
    return Answer(answer.status, [*answer.headers, ("x-idempotency-expired", "true")], answer.body)

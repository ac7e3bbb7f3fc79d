"""Idempotency for ASGI apps such as FastAPI and Starlette: `app.add_middleware(IdempotencyMiddleware, client=…)`.

Pure ASGI: it needs no framework. A keyed request is claimed first, run on a task of its own, and its answer is recorded
before it is sent; so a client that goes away does not stop it, and its retry gets the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, MutableMapping
from typing import Any, Callable, Optional
from urllib.parse import quote

from . import door as rules
from ._async.client import AsyncHapax
from ._async.door import AsyncDoor
from .door import Answer, Asked, Granted, Options, Unkept
from .errors import HapaxError
from .heartbeat import AsyncHeartbeat

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# Frameworks name these types in their own ways.
App = Callable[[Any, Any, Any], Awaitable[None]]

# What a URI may hold as it is; the rest is escaped, so that it has one spelling.
_SAFE = "%/:?@!$&'()*+,;=-._~"
_SKIPPED_EXTENSIONS = ("http.response.pathsend", "http.response.zerocopysend", "http.response.trailers")


class IdempotencyMiddleware:
    """Runs each keyed POST, PUT, PATCH and DELETE once per key, and replays its recorded answer.

    `options` say how it behaves, see `hapax.door.Options`. `principal` names whoever sent a request (a user id, say):
    give it where your callers do not trust each other, so that nobody is answered what another was told. Without it a
    derived key is for whoever sends the same `Authorization`; a request that brings cookies and has neither is refused.
    """

    def __init__(
        self,
        app: App,
        *,
        client: Optional[AsyncHapax] = None,
        principal: Optional[Callable[[Scope], Optional[str]]] = None,
        options: Optional[Options] = None,
    ) -> None:
        self.app = app
        self.options = options or Options()
        self._principal = principal
        client = client or AsyncHapax()
        self._refused = _refused(client)
        self._door = AsyncDoor(client, self.options)
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._refused:
            await _refuse_start(self._refused, scope, receive, send)
            return
        if scope["type"] != "http" or scope["method"] not in rules.KEYED_METHODS:
            await self.app(scope, receive, send)
            return
        headers = _headers_of(scope)
        keys = [value for name, value in headers if name == "idempotency-key"]
        asked = _asked(scope, headers)
        if not keys and not self.options.derive:
            if self.options.required:
                await _send_answer(send, rules.key_required(asked))
            else:
                await self.app(scope, receive, send)
            return
        try:
            principal = self._principal(scope) if self._principal else None
            key = rules.key_of(keys, principal)
        except rules.KeyRefused as why:
            await _send_answer(send, rules.key_invalid(asked, str(why)))
            return
        derived_for = None
        if not keys:
            given = [value for name, value in headers if name == "authorization"]
            derived_for = rules.derived_for(principal, given)
            if derived_for is None and any(name == "cookie" for name, _ in headers):
                await _send_answer(send, rules.principal_required(asked))
                return
        body = await _body(receive, dict(headers), self.options.max_body_bytes)
        if body is _GONE:
            return
        if not isinstance(body, bytes):
            await _send_answer(send, rules.body_too_large(asked, self.options.max_body_bytes))
            return
        asked = Asked(**{**asked.__dict__, "key": key, "body": body, "principal": derived_for})
        # On a task of its own from the claim on: a client that goes away leaves neither a key held by nobody nor a
        # handler cut off in the middle.
        task = asyncio.ensure_future(self._claim_and_run(asked, scope, send))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.shield(task)

    async def drain(self) -> None:
        """Waits for the requests that still run, after their clients have gone."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _claim_and_run(self, asked: Asked, scope: Scope, send: Send) -> None:
        entered = await self._door.enter(asked)
        if isinstance(entered, Answer):
            await _send_answer(send, entered)
            return
        inner = _scope_of(scope)
        if entered is None:
            await self.app(inner, _receive_of(asked.body), send)
            return
        granted = entered
        async with AsyncHeartbeat(lambda: self._door.renew(granted), self.options.lease_seconds / 3) as heartbeat:
            recorder = _Recorder(self._door, granted, self.options, send, heartbeat)
            try:
                await self.app(inner, _receive_of(asked.body), recorder.send)
            except BaseException:
                await recorder.broke_off()
                raise
            await recorder.broke_off()


class _Recorder:
    """Takes what the app sends, and records it when it is whole."""

    def __init__(
        self, door: AsyncDoor, granted: Granted, options: Options, send: Send, heartbeat: AsyncHeartbeat
    ) -> None:
        self._door, self._granted, self._options, self._send = door, granted, options, send
        self._heartbeat = heartbeat
        self._start: Optional[Message] = None
        self._chunks: list[bytes] = []
        self._bytes = 0
        self._passes = False
        self._is_over = False
        self._discards = False

    async def send(self, message: Message) -> None:
        if self._discards:
            return
        if self._passes or self._is_over:
            await _send_if_there(self._send, message)
            return
        if message["type"] == "http.response.start":
            self._start = message
            return
        if message["type"] != "http.response.body" or self._start is None:
            await _send_if_there(self._send, message)
            return
        self._chunks.append(bytes(message.get("body", b"")))
        self._bytes += len(self._chunks[-1])
        if not message.get("more_body", False):
            await self._end(self._start)
        elif self._bytes > self._options.max_response_bytes or _streams(self._start):
            await self._pass_on(self._start)

    async def _end(self, start: Message) -> None:
        self._is_over = True
        answer = Answer(start["status"], _decoded(start.get("headers", [])), b"".join(self._chunks))
        await self._heartbeat.stop()
        instead = await self._door.record(self._granted, answer)
        await _send_answer(self._send, instead or rules.marked_expired(answer, self._granted.claim))

    async def _pass_on(self, start: Message) -> None:
        """It is too large or has no end: it goes through unharmed, and a replay will be told so."""
        self._passes = True
        await self._heartbeat.stop()
        instead = await self._door.record(self._granted, Unkept(start["status"]))
        if instead is not None:
            self._discards = True
            await _send_answer(self._send, instead)
            return
        if self._granted.claim["expired"]:
            start = {**start, "headers": [*start.get("headers", []), (b"x-idempotency-expired", b"true")]}
        await _send_if_there(self._send, start)
        body = {"type": "http.response.body", "body": b"".join(self._chunks), "more_body": True}
        await _send_if_there(self._send, body)

    async def broke_off(self) -> None:
        """The app ended. If there was no whole answer, the key is given back."""
        if not (self._is_over or self._passes):
            self._is_over = True
            await self._heartbeat.stop()
            await self._door.release(self._granted)


class _Gone:
    """The client left before its request was whole."""


_GONE = _Gone()


async def _body(receive: Receive, headers: Mapping[str, str], bytes_max: int) -> Any:
    """The whole body, None for one that is too large, or _GONE."""
    announced = headers.get("content-length", "")
    if announced.isdigit() and int(announced) > bytes_max:
        return None
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return _GONE
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > bytes_max:
            return None
        if not message.get("more_body", False):
            return b"".join(chunks)


def _receive_of(body: bytes) -> Receive:
    """The body once, then silence: what runs under a key is not told that its client has gone."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.get_running_loop().create_future()
        return {"type": "http.disconnect"}

    return receive


def _scope_of(scope: Scope) -> Scope:
    """Without the ways around http.response.body, which could not be recorded."""
    extensions = scope.get("extensions") or {}
    kept = {name: value for name, value in extensions.items() if name not in _SKIPPED_EXTENSIONS}
    return {**scope, "extensions": kept}


def _headers_of(scope: Scope) -> list[tuple[str, str]]:
    return _decoded(scope["headers"])


def _decoded(headers: Any) -> list[tuple[str, str]]:
    return [(bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")) for name, value in headers]


def _asked(scope: Scope, headers: list[tuple[str, str]]) -> Asked:
    first = dict(reversed(headers))
    raw = scope.get("raw_path")
    path = quote(raw.split(b"?")[0], safe=_SAFE) if raw else quote(scope["path"])
    query = quote(scope.get("query_string", b""), safe=_SAFE)
    return Asked(
        method=scope["method"],
        path=f"{path}?{query}" if query else path,
        key=None,
        body=b"",
        content_type=first.get("content-type", ""),
        trace_id=rules.trace_id_of(first.get("traceparent")),
        wants_problem="application/problem+json" in first.get("accept", ""),
    )


def _streams(start: Message) -> bool:
    """An event stream has no end to wait for."""
    headers = dict(_decoded(start.get("headers", [])))
    return headers.get("content-type", "").startswith("text/event-stream")


def _refused(client: AsyncHapax) -> Optional[HapaxError]:
    """Why the app must not start. Raised at once where that is seen; a framework that makes its middlewares only when
    the server starts it has its error taken for an app without a lifespan, and would go on."""
    try:
        client.check_token()
    except HapaxError as why:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise why from None
        return why
    return None


async def _refuse_start(why: HapaxError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "lifespan":
        raise why
    await receive()
    await send({"type": "lifespan.startup.failed", "message": why.message})


async def _send_answer(send: Send, answer: Answer) -> None:
    headers = [(name.lower(), value) for name, value in answer.headers if name.lower() != "content-length"]
    if answer.status >= 200 and answer.status not in (204, 304):
        headers.append(("content-length", str(len(answer.body))))
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await _send_if_there(send, {"type": "http.response.start", "status": answer.status, "headers": encoded})
    await _send_if_there(send, {"type": "http.response.body", "body": answer.body})


async def _send_if_there(send: Send, message: Message) -> None:
    try:
        await send(message)
    except OSError:
        # The client has gone. The handler goes on, and the answer is recorded for the retry.
        return

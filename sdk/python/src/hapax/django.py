"""Idempotency for Django, sync and async: add "hapax.django.IdempotencyMiddleware" to MIDDLEWARE.

Settings: HAPAX_URL and HAPAX_TOKEN (or the variables of the same names), HAPAX_IDEMPOTENCY = {…} with the options of
`hapax.door.Options`, and HAPAX_PRINCIPAL, a function of the request that names who sent it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any, Callable, Optional, Union
from weakref import WeakKeyDictionary

from . import door as rules
from ._async.client import AsyncHapax
from ._async.door import AsyncDoor
from ._sync.client import Hapax
from ._sync.door import Door
from .door import Answer, Asked, Granted, Options, Unkept
from .heartbeat import AsyncHeartbeat, Heartbeat

GetResponse = Callable[[Any], Any]


class IdempotencyMiddleware:
    """Runs each keyed POST, PUT, PATCH and DELETE once per key, and replays its recorded answer."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        from asgiref.sync import iscoroutinefunction, markcoroutinefunction
        from django.conf import settings

        self.get_response = get_response
        self.options = Options(**getattr(settings, "HAPAX_IDEMPOTENCY", {}))
        self._url: Optional[str] = getattr(settings, "HAPAX_URL", None)
        self._token: Optional[str] = getattr(settings, "HAPAX_TOKEN", None)
        self._principal: Optional[Callable[[Any], Optional[str]]] = getattr(settings, "HAPAX_PRINCIPAL", None)
        # A connection pool belongs to one event loop.
        self._doors: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncDoor] = WeakKeyDictionary()
        self._running: set[asyncio.Task[Any]] = set()
        # Said when the app starts, not when the first payment comes.
        with Hapax(self._url, self._token) as client:
            client.check_token()
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            # Django asks by this mark whether it has to await us.
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        return self._async_call(request) if self._is_async else self._sync_call(request)

    @functools.cached_property
    def _door(self) -> Door:
        return Door(Hapax(self._url, self._token), self.options)

    def _async_door(self) -> AsyncDoor:
        loop = asyncio.get_running_loop()
        if loop not in self._doors:
            self._doors[loop] = AsyncDoor(AsyncHapax(self._url, self._token), self.options)
        return self._doors[loop]

    def _sync_call(self, request: Any) -> Any:
        asked = self._asked(request)
        if not isinstance(asked, Asked):
            return self.get_response(request) if asked is None else _response(asked)
        door = self._door
        entered = door.enter(asked)
        if isinstance(entered, Answer):
            return _response(entered)
        if entered is None:
            return self.get_response(request)
        granted = entered
        try:
            with Heartbeat(lambda: door.renew(granted), self.options.lease_seconds / 3):
                response = self.get_response(request)
                answer = _answer(response)
        except BaseException:
            door.release(granted)
            raise
        return _sent(response, door.record(granted, answer), granted)

    async def _async_call(self, request: Any) -> Any:
        asked = self._asked(request)
        if not isinstance(asked, Asked):
            return await self.get_response(request) if asked is None else _response(asked)
        # Django stops what runs when its client goes away; what runs under a key must come to its end.
        task: asyncio.Task[Any] = asyncio.ensure_future(self._claim_and_run(asked, request))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _claim_and_run(self, asked: Asked, request: Any) -> Any:
        door = self._async_door()
        entered = await door.enter(asked)
        if isinstance(entered, Answer):
            return _response(entered)
        if entered is None:
            return await self.get_response(request)
        granted = entered
        try:
            async with AsyncHeartbeat(lambda: door.renew(granted), self.options.lease_seconds / 3):
                response = await self.get_response(request)
                answer = _answer(response)
        except BaseException:
            await door.release(granted)
            raise
        return _sent(response, await door.record(granted, answer), granted)

    def _asked(self, request: Any) -> Union[Asked, Answer, None]:
        """The keyed request, the answer to one that cannot be, or None for one that passes untouched."""
        if request.method not in rules.KEYED_METHODS:
            return None
        headers: Mapping[str, str] = request.headers
        asked = Asked(
            method=request.method,
            path=request.get_full_path(),
            key=None,
            body=b"",
            content_type=headers.get("content-type") or "",
            trace_id=rules.trace_id_of(headers.get("traceparent")),
            wants_problem="application/problem+json" in (headers.get("accept") or ""),
        )
        given = headers.get("idempotency-key")
        if given is None and not self.options.derive:
            return rules.key_required(asked) if self.options.required else None
        try:
            principal = self._principal(request) if self._principal else None
            key = rules.key_of([] if given is None else [given], principal)
        except rules.KeyRefused as why:
            return rules.key_invalid(asked, str(why))
        derived_for = None
        if given is None:
            derived_for = rules.derived_for(principal, [headers.get("authorization") or ""])
            if derived_for is None and headers.get("cookie") is not None:
                return rules.principal_required(asked)
        announced = headers.get("content-length") or "0"
        if not announced.isdigit() or int(announced) > self.options.max_body_bytes:
            return rules.body_too_large(asked, self.options.max_body_bytes)
        body = _read(request)
        if body is None or len(body) > self.options.max_body_bytes:
            return rules.body_too_large(asked, self.options.max_body_bytes)
        return Asked(**{**asked.__dict__, "key": key, "body": body, "principal": derived_for})


def _read(request: Any) -> Optional[bytes]:
    from django.core.exceptions import RequestDataTooBig

    try:
        body: bytes = request.body
    except RequestDataTooBig:
        return None
    return body


def _answer(response: Any) -> Union[Answer, Unkept]:
    """The response, whole; a stream has no end to wait for."""
    if getattr(response, "streaming", False):
        return Unkept(response.status_code)
    if hasattr(response, "render") and not getattr(response, "is_rendered", True):
        response = response.render()
    return Answer(response.status_code, list(response.items()), bytes(response.content))


def _sent(response: Any, instead: Optional[Answer], granted: Granted) -> Any:
    """The app's own response, cookies and all, unless something else is to be told."""
    if instead is not None:
        return _response(instead)
    if granted.claim["expired"]:
        response["X-Idempotency-Expired"] = "true"
    return response


def _response(answer: Answer) -> Any:
    from django.http import HttpResponse

    response = HttpResponse(answer.body, status=answer.status)
    if not any(name.lower() == "content-type" for name, _ in answer.headers):
        del response["Content-Type"]
    for name, value in answer.headers:
        response[name] = value
    return response

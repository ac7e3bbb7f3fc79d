"""Answers of hapax that get lost on the wire, while something runs longer than a third of its lease."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hapax import AsyncHapax, Hapax, Retry, async_idempotent, idempotent
from hapax._sync.door import Door
from hapax.asgi import IdempotencyMiddleware
from hapax.door import Answer, Asked, Granted, Options
from hapax.heartbeat import Heartbeat

from .server import Server

LEASE_SECONDS = 1
# A third of the lease is over, so at least one renewal was answered before the end.
RUNS_FOR_S = 0.6
PATIENCE = Retry(attempts=3, base_s=0.01, cap_s=0.02)


class Wire:
    """What went over the wire, and which answers never arrive: the first complete's, and renewals' if told so."""

    def __init__(self, *, loses_renewals: bool = False) -> None:
        self.seen: list[tuple[str, int]] = []
        self._loses_renewals = loses_renewals

    def arrives(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        verb = request.url.path.rsplit("/", 1)[-1]
        self.seen.append((verb, response.status_code))
        is_first_complete = verb == "complete" and self.count("complete") == 1
        if is_first_complete or (verb == "renew" and self._loses_renewals):
            raise httpx.ReadError("the answer got lost", request=request)
        return response

    def count(self, verb: str) -> int:
        return sum(seen == verb for seen, _ in self.seen)

    def check(self) -> None:
        """With the token of the last renewal the second complete is known as the first. Without it the second is
        refused, and a claim finds what is recorded."""
        statuses = [status for verb, status in self.seen if verb == "complete"]
        assert self.count("renew") >= 1
        assert statuses == ([200, 409] if self._loses_renewals else [200, 200])
        assert self.count("claim") == (2 if self._loses_renewals else 1)


class Lossy(httpx.HTTPTransport):
    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.read()
        return self._wire.arrives(request, response)


class AsyncLossy(httpx.AsyncHTTPTransport):
    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        await response.aread()
        return self._wire.arrives(request, response)


def settings_of(server: Server) -> dict[str, Any]:
    return {"base_url": server.url, "headers": {"Authorization": f"Bearer {server.token}"}, "timeout": 20}


def lossy(server: Server, wire: Wire) -> Hapax:
    return Hapax(server.url, http=httpx.Client(transport=Lossy(wire), **settings_of(server)), retry=PATIENCE)


def async_lossy(server: Server, wire: Wire) -> AsyncHapax:
    http = httpx.AsyncClient(transport=AsyncLossy(wire), **settings_of(server))
    return AsyncHapax(server.url, http=http, retry=PATIENCE)


@pytest.fixture(params=[False, True], ids=["complete", "complete and renewals"])
def wire(request: pytest.FixtureRequest) -> Wire:
    return Wire(loses_renewals=request.param)


def test_a_function_runs_once_though_answers_get_lost(server: Server, wire: Wire) -> None:
    runs: list[str] = []
    with lossy(server, wire) as client:

        @idempotent(client, key=uuid.uuid4().hex, lease_seconds=LEASE_SECONDS)
        def pay() -> str:
            runs.append("ran")
            time.sleep(RUNS_FOR_S)
            return "paid"

        assert pay() == "paid"
        wire.check()
        assert (pay(), runs) == ("paid", ["ran"])


def test_a_coroutine_runs_once_though_answers_get_lost(server: Server, wire: Wire) -> None:
    async def test() -> None:
        runs: list[str] = []
        async with async_lossy(server, wire) as client:

            @async_idempotent(client, key=uuid.uuid4().hex, lease_seconds=LEASE_SECONDS)
            async def pay() -> str:
                runs.append("ran")
                await asyncio.sleep(RUNS_FOR_S)
                return "paid"

            assert await pay() == "paid"
            wire.check()
            assert (await pay(), runs) == ("paid", ["ran"])

    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize("size", [10, 2_000], ids=["kept", "too large to keep"])
def test_a_request_runs_once_though_answers_get_lost(server: Server, wire: Wire, size: int) -> None:
    async def test() -> None:
        runs: list[str] = []

        async def pay(request: Request) -> Response:
            runs.append("ran")
            await asyncio.sleep(RUNS_FOR_S)
            return JSONResponse({"paid": "x" * size})

        async with async_lossy(server, wire) as client:
            app = IdempotencyMiddleware(
                Starlette(routes=[Route("/pay", pay, methods=["POST"])]),
                client=client,
                options=Options(lease_seconds=LEASE_SECONDS, max_response_bytes=1_000),
            )
            shop = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop", timeout=20)
            headers = {"Idempotency-Key": uuid.uuid4().hex}
            first = await shop.post("/pay", json={}, headers=headers)
            assert (first.status_code, first.json()) == (200, {"paid": "x" * size})
            wire.check()
            second = await shop.post("/pay", json={}, headers=headers)
            if size > 1_000:
                assert second.json()["error"]["details"]["reason"] == "response_not_stored"
            else:
                assert (second.content, second.headers["idempotency-replayed"]) == (first.content, "true")
            assert runs == ["ran"]

    asyncio.run(asyncio.wait_for(test(), 60))


def test_on_threads_the_newest_token_is_carried_too(server: Server, wire: Wire) -> None:
    asked = Asked("POST", "/pay", uuid.uuid4().hex, b"{}", "application/json", "0" * 32)
    with lossy(server, wire) as client:
        door = Door(client, Options(lease_seconds=LEASE_SECONDS))
        granted = door.enter(asked)
        assert isinstance(granted, Granted)
        with Heartbeat(lambda: door.renew(granted), LEASE_SECONDS / 3):
            time.sleep(RUNS_FOR_S)
        instead = door.record(granted, Answer(200, [], b"paid"))
        wire.check()
        assert instead is None or instead.body == b"paid"
        replay = door.enter(asked)
        assert isinstance(replay, Answer)
        assert replay.body == b"paid"


def test_a_key_is_given_back_under_its_newest_token(server: Server) -> None:
    asked = Asked("POST", "/pay", uuid.uuid4().hex, b"{}", "application/json", "0" * 32)
    with Hapax(server.url, server.token) as client:
        door = Door(client, Options())
        granted = door.enter(asked)
        assert isinstance(granted, Granted)
        first = granted.token
        assert door.renew(granted)
        assert granted.token != first
        door.release(granted)
        assert isinstance(door.enter(asked), Granted)

"""The options of the middleware, and what it does when hapax cannot be asked; in one process."""

from __future__ import annotations

import asyncio
import socket
import uuid
from typing import Any, Callable

import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hapax import AsyncHapax, LeaseLost, Retry, Unavailable
from hapax.asgi import IdempotencyMiddleware
from hapax.django import IdempotencyMiddleware as DjangoMiddleware
from hapax.door import Options, key_of, stored_headers

Run = Callable[[Callable[[AsyncHapax], Any]], Any]


class Shop:
    """A small app; `runs` counts."""

    def __init__(self) -> None:
        self.runs = 0
        self.began, self.gate = asyncio.Event(), asyncio.Event()
        self.after: list[str] = []
        routes = [Route("/pay", self.pay, methods=["POST"]), Route("/gated", self.gated, methods=["POST"])]
        self.app = Starlette(routes=[*routes, Route("/later", self.later, methods=["POST"])])

    async def pay(self, request: Request) -> Response:
        self.runs += 1
        return JSONResponse({"run": self.runs})

    async def gated(self, request: Request) -> Response:
        self.runs += 1
        self.began.set()
        await self.gate.wait()
        return JSONResponse({"run": self.runs})

    async def later(self, request: Request) -> Response:
        async def slow() -> None:
            await self.gate.wait()
            self.after.append("done")

        return JSONResponse({"ok": True}, background=BackgroundTask(slow))


def wrapped(shop: Shop, client: AsyncHapax, **options: Any) -> httpx.AsyncClient:
    app = IdempotencyMiddleware(shop.app, client=client, options=Options(**options))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop", timeout=20)


def key() -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex}


def test_a_key_can_be_required_or_derived(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop = Shop()
        refused = await wrapped(shop, client, required=True).post("/pay", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "idempotency_key_required")
        deriving = wrapped(shop, client, derive=True)
        body = {"order": uuid.uuid4().hex}
        answers = [await deriving.post("/pay", json=body) for _ in range(2)]
        assert answers[1].headers["idempotency-replayed"] == "true"
        assert shop.runs == 1

    with_async(test)


def test_wait_ms_waits_for_the_answer_of_the_other(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop, headers = Shop(), key()
        http = wrapped(shop, client, wait_ms=10_000)
        first = asyncio.ensure_future(http.post("/gated", json={}, headers=headers))
        await shop.began.wait()
        second = asyncio.ensure_future(http.post("/gated", json={}, headers=headers))
        await asyncio.sleep(0.3)
        shop.gate.set()
        assert (await first).json() == (await second).json() == {"run": 1}
        assert (await second).headers["idempotency-replayed"] == "true"

    with_async(test)


def test_under_hold_a_request_whose_runner_died_is_left_to_an_operator(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop, headers = Shop(), key()
        asked: dict[str, Any] = {"method": "POST", "path": "/pay", "key": headers["Idempotency-Key"], "body": {}}
        dead = await client.keys.claim(**asked, lease_seconds=0)
        doubt = await wrapped(shop, client, on_lost="hold", lease_seconds=1).post("/pay", json={}, headers=headers)
        assert (doubt.status_code, doubt.json()["error"]["code"]) == (409, "IDEMPOTENCY_IN_DOUBT")
        assert shop.runs == 0
        await asyncio.sleep(1.1)
        await client.keys.settle(dead["id"], release=True)
        assert (await wrapped(shop, client, on_lost="hold").post("/pay", json={}, headers=headers)).status_code == 200

    with_async(test)


def test_an_expired_key_runs_as_new_and_says_so(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop, headers = Shop(), key()
        http = wrapped(shop, client, ttl_seconds=1)
        first = await http.post("/pay", json={}, headers=headers)
        assert "x-idempotency-expired" not in first.headers
        await asyncio.sleep(1.2)
        again = await http.post("/pay", json={}, headers=headers)
        assert (again.headers["x-idempotency-expired"], again.json()) == ("true", {"run": 2})

    with_async(test)


def test_an_answer_that_cannot_be_recorded_is_not_given(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        async def down(*args: Any, **kwargs: Any) -> Any:
            raise Unavailable("down")

        shop, headers = Shop(), key()
        complete, client.keys.complete = client.keys.complete, down  # type: ignore[method-assign]
        answer = await wrapped(shop, client, lease_seconds=1).post("/pay", json={}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (503, "outcome_unknown")
        client.keys.complete = complete  # type: ignore[method-assign]
        await asyncio.sleep(1.1)
        assert (await wrapped(shop, client).post("/pay", json={}, headers=headers)).json() == {"run": 2}

    with_async(test)


def test_everybody_is_given_the_answer_that_was_recorded(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        complete = client.keys.complete

        async def outrun(key_id: str, *, token: str, **told: Any) -> Any:
            await complete(key_id, token=token, status=200, body="the other runner's")
            raise LeaseLost("lease_lost", "somebody was quicker")

        client.keys.complete = outrun  # type: ignore[method-assign]
        answer = await wrapped(Shop(), client).post("/pay", json={}, headers=key())
        assert (answer.text, answer.headers["idempotency-replayed"]) == ("the other runner's", "true")

    with_async(test)


def test_two_callers_with_equal_bodies_are_two_requests(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop, body = Shop(), {"order": uuid.uuid4().hex}
        app = IdempotencyMiddleware(
            shop.app,
            client=client,
            principal=lambda scope: dict(scope["headers"]).get(b"x-user", b"").decode(),
            options=Options(derive=True),
        )
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop", timeout=20)

        async def run_of(**headers: str) -> int:
            run: int = (await http.post("/pay", json=body, headers=headers)).json()["run"]
            return run

        ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
        assert [await run_of(**ann), await run_of(**bob), await run_of(**ann)] == [1, 2, 1]
        assert await run_of(**bob, cookie="theme=dark") == 2
        # Without a principal the credential tells callers apart.
        one, two = {"authorization": "Bearer one"}, {"authorization": "Bearer two"}
        assert [await run_of(**one), await run_of(**two), await run_of(**one)] == [3, 4, 3]
        assert [await run_of(), await run_of()] == [5, 5]

    with_async(test)


def test_a_request_with_cookies_and_no_principal_gets_no_derived_key(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop, cookie = Shop(), {"cookie": "sid=ann"}
        http = wrapped(shop, client, derive=True)
        refused = await http.post("/pay", json={}, headers=cookie)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "principal_required")
        assert refused.json()["error"]["details"] == {"setting": "principal"}
        assert shop.runs == 0
        assert (await http.post("/pay", json={}, headers={**cookie, **key()})).status_code == 200
        assert shop.runs == 1

    with_async(test)


def test_an_answer_does_not_wait_for_what_runs_after_it(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop = Shop()
        app = IdempotencyMiddleware(shop.app, client=client)
        sent: list[Any] = []
        answered = asyncio.Event()

        async def receive() -> Any:
            return {"type": "http.request", "body": b"{}"}

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                answered.set()

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/later",
            "query_string": b"",
            "headers": [(b"idempotency-key", uuid.uuid4().hex.encode())],
        }
        call = asyncio.ensure_future(app(scope, receive, send))
        await answered.wait()
        assert sent[0]["status"] == 200
        assert shop.after == []
        shop.gate.set()
        await call
        await app.drain()
        assert shop.after == ["done"]

    with_async(test)


def nobody() -> AsyncHapax:
    """A client of an address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return AsyncHapax(f"http://127.0.0.1:{port}", "t", retry=Retry(attempts=1))


def test_while_hapax_cannot_be_asked_nothing_runs_unless_the_app_is_brave() -> None:
    async def test() -> None:
        shop = Shop()
        answer = await wrapped(shop, nobody()).post("/pay", json={}, headers=key())
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
        assert answer.headers["retry-after"] == "1"
        assert shop.runs == 0
        assert (await wrapped(shop, nobody()).post("/pay", json={})).status_code == 200, (
            "without a key nothing is asked"
        )
        brave = await wrapped(shop, nobody(), fail_open=True).post("/pay", json={}, headers=key())
        assert (brave.status_code, shop.runs) == (200, 2)

    asyncio.run(test())


def test_a_token_that_hapax_refuses_is_not_the_callers_fault(with_async: Run) -> None:
    async def test(client: AsyncHapax) -> None:
        shop = Shop()
        stranger = AsyncHapax(client.base_url, "wrong")
        answer = await wrapped(shop, stranger).post("/pay", json={}, headers=key())
        assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (503, "refused")
        assert shop.runs == 0

    with_async(test)


def test_a_key_is_read_bare_or_quoted_and_secrets_are_never_kept() -> None:
    assert key_of([]) is None
    assert key_of([' "a\\"b" ']) == 'a"b'
    assert key_of(["k"], "ann") != key_of(["k"], "bob")
    assert len(key_of(["k" * 255], "ann") or "") <= 255
    headers = [
        ("Set-Cookie", "s"),
        ("Authorization", "x"),
        ("Location", "/1"),
        ("WWW-Authenticate", "Basic"),
        ("Link", "a"),
        ("Link", "b"),
    ]
    options = Options(store_headers=frozenset({"set-cookie", "www-authenticate"}))
    assert stored_headers(headers, options) == {"location": "/1", "link": "a, b"}


@pytest.mark.parametrize(
    "wrong", [{"on_lost": "x"}, {"mismatch_status": 400}, {"lease_seconds": 0}, {"max_body_bytes": 2**30}]
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Options(**wrong)


def test_the_django_middleware_can_be_imported_without_django_settings() -> None:
    assert DjangoMiddleware.sync_capable
    assert DjangoMiddleware.async_capable

"""The behaviour table, in three real apps before a real server: FastAPI, Django over ASGI, Django over WSGI."""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import httpx
import pytest

from .server import Running, Server

PYTHON_FOLDER = Path(__file__).resolve().parents[1]
SAYS = r"running on (http://\S+)"
APPS = {
    "fastapi": ["-m", "uvicorn", "tests.apps.fastapi_app:app", "--port", "0", "--no-access-log"],
    "django-asgi": [
        "-m",
        "uvicorn",
        "tests.apps.django_app:asgi",
        "--port",
        "0",
        "--no-access-log",
        "--lifespan",
        "off",
    ],
    "django-wsgi": ["-m", "tests.apps.django_app"],
}


class Shop:
    """One app, which may die and be started again."""

    def __init__(self, kind: str, server: Server, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self._env = {"SHOP_FOLDER": str(folder), "HAPAX_URL": server.url, "HAPAX_TOKEN": server.token}
        if kind == "django-asgi":
            self._env["SHOP_ASYNC"] = "1"
        self.start()

    def start(self) -> None:
        command = [sys.executable, *APPS[self.kind]]
        self.app = Running(command, SAYS, env=self._env, cwd=PYTHON_FOLDER)
        self.http = httpx.Client(base_url=self.app.url, timeout=30)

    def stop(self) -> None:
        self.http.close()
        self.app.stop()

    def send(self, path: str, body: Any = None, *, key: Optional[str] = None, **options: Any) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        media_type = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {"Content-Type": media_type, **headers, **options.pop("headers", {})}
        return self.http.request(options.pop("method", "POST"), path, content=content, headers=headers, **options)

    def runs(self, name: str) -> int:
        file = self.folder / f"{name}.runs"
        return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0

    def wait_for_run(self, name: str) -> None:
        ends_at = time.monotonic() + 20
        while not self.runs(name):
            assert time.monotonic() < ends_at, "the handler did not run"
            time.sleep(0.01)

    def open_gate(self, name: str) -> None:
        (self.folder / f"{name}.gate").touch()


@pytest.fixture(scope="module", params=list(APPS))
def shop(request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(request.param, server, tmp_path_factory.mktemp("shop"))
    yield made
    made.stop()


@pytest.fixture
def name() -> str:
    return f"n{uuid.uuid4().hex}x"


def code_of(response: httpx.Response) -> str:
    told = response.json()
    assert set(told) == {"error", "trace_id"}
    assert response.headers["x-trace-id"] == told["trace_id"]
    code: str = told["error"]["code"]
    return code


def test_a_fresh_request_runs_and_a_second_one_is_a_replay(shop: Shop, name: str) -> None:
    first, second = (shop.send(f"/pay/{name}", {"amount": 10}, key="k") for _ in range(2))
    assert (first.status_code, first.json()) == (201, {"paid": {"amount": 10}, "run": 1})
    assert "x-idempotency-replay" not in first.headers
    assert "session=secret" in first.headers["set-cookie"]
    assert (second.status_code, second.content) == (201, first.content)
    assert (second.headers["x-idempotency-replay"], second.headers["idempotency-replayed"]) == ("true", "true")
    assert second.headers["location"] == f"/pay/{name}"
    assert second.headers["x-shop"] == "open"
    assert second.headers["content-type"] == first.headers["content-type"]
    assert "set-cookie" not in second.headers
    assert "x-other" not in second.headers
    assert shop.runs(name) == 1


def test_the_same_json_in_another_spelling_is_the_same_request(shop: Shop, name: str) -> None:
    shop.send(f"/pay/{name}", {"a": 1, "b": 2}, key="k")
    body = b'{"b": 2.0,  "a": 1e0, "request_id": "r"}'
    again = shop.http.post(
        f"/pay/{name}",
        content=body,
        headers={"Content-Type": "application/json; charset=utf-8", "Idempotency-Key": '"k"'},
    )
    assert again.headers["idempotency-replayed"] == "true"


def test_another_body_under_the_same_key_is_a_conflict(shop: Shop, name: str) -> None:
    shop.send(f"/pay/{name}", {"amount": 10}, key="k")
    other = shop.send(f"/pay/{name}", {"amount": 99}, key="k")
    assert (other.status_code, code_of(other)) == (409, "IDEMPOTENCY_CONFLICT")
    assert other.headers["x-idempotency-conflict"] == "body-mismatch"
    assert "retry-after" not in other.headers
    details = other.json()["error"]["details"]
    assert details["diff_summary"] == ["amount: '10' → '99'"]
    assert details["original_key"] == "k"
    assert shop.runs(name) == 1


def test_while_it_runs_elsewhere_others_are_told_to_come_back(shop: Shop, name: str) -> None:
    answers: list[httpx.Response] = []
    runner = threading.Thread(target=lambda: answers.append(shop.send(f"/gated/{name}", {}, key="k")))
    runner.start()
    shop.wait_for_run(name)
    began = time.monotonic()
    # Beyond the lease of one second: only a heartbeat keeps the key.
    while time.monotonic() < began + 1.5:
        other = shop.send(f"/gated/{name}", {}, key="k")
        assert (other.status_code, code_of(other)) == (409, "IDEMPOTENCY_IN_PROGRESS")
        assert int(other.headers["retry-after"]) >= 1
        time.sleep(0.1)
    shop.open_gate(name)
    runner.join()
    assert answers[0].json() == {"run": 1}
    assert shop.send(f"/gated/{name}", {}, key="k").content == answers[0].content
    assert shop.runs(name) == 1


def test_a_client_that_goes_away_does_not_stop_the_handler(shop: Shop, name: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        shop.send(f"/gated/{name}", {}, key="k", timeout=0.5)
    shop.wait_for_run(name)
    shop.open_gate(name)
    ends_at = time.monotonic() + 20
    while (answer := shop.send(f"/gated/{name}", {}, key="k")).status_code == 409:
        assert time.monotonic() < ends_at, "the handler was stopped"
        time.sleep(0.05)
    assert (answer.json(), answer.headers["idempotency-replayed"]) == ({"run": 1}, "true")
    assert shop.runs(name) == 1


def test_a_request_whose_process_died_runs_again_when_its_lease_is_over(shop: Shop, name: str) -> None:
    with pytest.raises(httpx.TransportError):
        shop.send(f"/crash/{name}", {}, key="k")
    shop.app.wait_until_dead()
    shop.start()
    ends_at = time.monotonic() + 20
    while (answer := shop.send(f"/crash/{name}", {}, key="k")).status_code == 409:
        assert code_of(answer) == "IDEMPOTENCY_IN_PROGRESS"
        assert time.monotonic() < ends_at, "the lease did not run out"
        time.sleep(0.1)
    assert answer.json() == {"run": 2}
    assert shop.send(f"/crash/{name}", {}, key="k").json() == {"run": 2}


def test_a_binary_body_comes_back_byte_for_byte(shop: Shop, name: str) -> None:
    body = bytes(range(256)) * 20
    first, second = (shop.send(f"/binary/{name}", body, key="k") for _ in range(2))
    assert first.content == second.content == bytes(reversed(body))
    assert second.headers["idempotency-replayed"] == "true"
    assert shop.send(f"/binary/{name}", body + b"\xff", key="k").status_code == 409


@pytest.mark.parametrize("status", [500, 503, 401, 403, 407, 408, 425, 429])
def test_an_answer_that_says_try_again_gives_the_key_back(shop: Shop, name: str, status: int) -> None:
    runs = [shop.send(f"/status/{status}/{name}", {}, key="k").json()["run"] for _ in range(2)]
    assert runs == [1, 2]


@pytest.mark.parametrize("status", [200, 400, 404, 422])
def test_any_other_answer_is_kept(shop: Shop, name: str, status: int) -> None:
    answers = [shop.send(f"/status/{status}/{name}", {}, key="k") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, status]
    assert [answer.json()["run"] for answer in answers] == [1, 1]


def test_an_exception_gives_the_key_back(shop: Shop, name: str) -> None:
    # Some servers drop the connection after an exception, whatever they answered.
    assert shop.send(f"/raises/{name}", {}, key="k", headers={"Connection": "close"}).status_code == 500
    assert shop.send(f"/raises/{name}", {}, key="k").json() == {"run": 2}


@pytest.mark.parametrize("what", ["large", "stream"])
def test_an_answer_that_cannot_be_kept_goes_through_and_its_replay_says_so(shop: Shop, name: str, what: str) -> None:
    first, second = (shop.send(f"/{what}/{name}", {}, key="k") for _ in range(2))
    assert first.status_code == 200
    assert first.content == (b"x" * 300_000 if what == "large" else b"data: 0\n\ndata: 1\n\ndata: 2\n\n")
    assert (second.status_code, code_of(second)) == (409, "IDEMPOTENCY_IN_DOUBT")
    assert second.json()["error"]["details"]["reason"] == "response_not_stored"
    assert shop.runs(name) == 1


def test_without_a_key_or_with_a_safe_method_nothing_is_changed(shop: Shop, name: str) -> None:
    for options in ({}, {"method": "GET", "key": "k"}):
        runs = [shop.send(f"/pay/{name}", {}, **options).json()["run"] for _ in range(2)]
        assert runs[1] == runs[0] + 1


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_every_method_that_changes_something_is_keyed(shop: Shop, name: str, method: str) -> None:
    answers = [shop.send(f"/pay/{name}", {"a": 1}, key="k", method=method) for _ in range(2)]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert shop.runs(name) == 1


def test_two_senders_do_not_meet_under_one_key(shop: Shop, name: str) -> None:
    for user, runs in (("ann", 1), ("bob", 2), ("ann", 2)):
        shop.send(f"/pay/{name}", {}, key="k", headers={"X-User": user})
        assert shop.runs(name) == runs


@pytest.mark.parametrize("key", ["two words", "x" * 256, '"open', "caf\u00e9"])
def test_what_is_no_key_is_refused(shop: Shop, name: str, key: str) -> None:
    refused = shop.send(f"/pay/{name}", {}, headers={"Idempotency-Key": key.encode("latin-1")})
    assert (refused.status_code, code_of(refused)) == (400, "idempotency_key_invalid")
    assert shop.runs(name) == 0


def test_a_keyed_body_over_the_limit_is_refused(shop: Shop, name: str) -> None:
    refused = shop.send(f"/binary/{name}", b"x" * 800_000, key="k")
    assert (refused.status_code, code_of(refused)) == (413, "payload_too_large")
    assert shop.runs(name) == 0


def test_the_trace_is_continued_and_a_problem_document_is_given_where_asked_for(shop: Shop, name: str) -> None:
    shop.send(f"/pay/{name}", {"amount": 1}, key="k")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"Accept": "application/problem+json", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    other = shop.send(f"/pay/{name}", {"amount": 2}, key="k", headers=headers)
    assert other.headers["content-type"] == "application/problem+json"
    told = other.json()
    assert (told["code"], told["status"], told["trace_id"]) == ("IDEMPOTENCY_CONFLICT", 409, trace)
    assert told["type"] == "urn:hapax:error:IDEMPOTENCY_CONFLICT"
    failure = {"code": "IDEMPOTENCY_CONFLICT", "message": told["detail"], "type": "idempotency_error"}
    assert told["error"] == failure

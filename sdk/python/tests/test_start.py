"""What is said at the start and at the end: a token that nobody set, a worker's first line, and Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import httpx
import pytest

from hapax import AsyncHapax, AsyncHeldJob, AsyncWorker, Hapax, HapaxError, HeldJob, Worker, job
from hapax.asgi import IdempotencyMiddleware

from .server import Running, Server
from .test_middleware import APPS, PYTHON_FOLDER

NOT_SET = "HAPAX_TOKEN is not set"
ENDS_WITHIN_S = 20


@pytest.fixture
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAPAX_TOKEN", raising=False)


def app_env(server: Server, folder: Path) -> dict[str, str]:
    return {"SHOP_FOLDER": str(folder), "HAPAX_URL": server.url, "HAPAX_TOKEN": ""}


@pytest.mark.parametrize("unset", [None, ""])
def test_a_refused_call_without_a_token_says_which_variable_to_set(
    server: Server, monkeypatch: pytest.MonkeyPatch, unset: Any
) -> None:
    if unset is None:
        monkeypatch.delenv("HAPAX_TOKEN", raising=False)
    else:
        monkeypatch.setenv("HAPAX_TOKEN", unset)
    with Hapax(server.url) as client, pytest.raises(HapaxError, match=NOT_SET) as told:
        client.stats()
    assert (told.value.code, told.value.status) == ("unauthorized", 401)

    async def ask() -> None:
        async with AsyncHapax(server.url) as client:
            await client.stats()

    with pytest.raises(HapaxError, match=NOT_SET):
        asyncio.run(ask())


def test_a_token_that_the_server_does_not_know_is_not_called_missing(server: Server) -> None:
    with Hapax(server.url, "nobody's") as client, pytest.raises(HapaxError) as told:
        client.stats()
    assert told.value.status == 401
    assert NOT_SET not in str(told.value)


def test_the_token_of_the_environment_is_the_default_and_an_empty_one_is_said_on_purpose(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAPAX_TOKEN", server.token)
    with Hapax(server.url) as client:
        client.check_token()
        assert client.stats()["total_requests"] >= 0
    with Hapax(server.url, "") as client:
        client.check_token()
        assert "Authorization" not in client.transport.http.headers
        # What the server says of it is still told in these words.
        with pytest.raises(HapaxError, match=NOT_SET):
            client.stats()


@pytest.mark.usefixtures("no_token")
def test_a_worker_without_a_token_does_not_start() -> None:
    @job("k")
    def handle(held: HeldJob) -> None:
        return None

    # Nobody listens there: it is found out before anything is sent.
    with Hapax("http://127.0.0.1:9") as client, pytest.raises(HapaxError, match=NOT_SET):
        Worker(client, [handle]).run(until_idle=True)

    async def run() -> None:
        async with AsyncHapax("http://127.0.0.1:9") as client:
            await AsyncWorker(client, kinds={"k": AsyncHeldJob.renew}).run(until_idle=True)

    with pytest.raises(HapaxError, match=NOT_SET):
        asyncio.run(run())


@pytest.mark.parametrize("kind", list(APPS))
def test_an_app_behind_the_middleware_does_not_start_without_a_token(server: Server, tmp_path: Path, kind: str) -> None:
    ended = subprocess.run(
        [sys.executable, *APPS[kind]],
        env={**os.environ, **app_env(server, tmp_path)},
        cwd=PYTHON_FOLDER,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    assert NOT_SET in ended.stderr
    assert "unning on http" not in ended.stdout + ended.stderr


@pytest.mark.usefixtures("no_token")
def test_a_middleware_that_is_made_by_hand_is_refused_where_it_is_made() -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        return None

    with pytest.raises(HapaxError, match=NOT_SET):
        IdempotencyMiddleware(nothing)


@pytest.mark.usefixtures("no_token")
def test_a_server_without_lifespan_is_told_by_the_first_request() -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        return None

    async def ask() -> None:
        transport = httpx.ASGITransport(IdempotencyMiddleware(nothing))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            await client.get("/")

    with pytest.raises(HapaxError, match=NOT_SET):
        asyncio.run(ask())


def test_a_worker_logs_which_server_it_works_for(
    client: Hapax, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(held: HeldJob) -> None:
        return None

    with caplog.at_level(logging.INFO, logger="hapax.worker"):
        Worker(client, kinds={"b": handle, "a": handle}, concurrency=2).run(until_idle=True)
    (said,) = [record.message for record in caplog.records if record.name == "hapax.worker"]
    assert said == f"jobs of the kinds a, b from {server.url}, 2 at once; Ctrl-C ends it"


@pytest.fixture
def start_worker(server: Server) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(way: str, kind: str, goes_on_s: str = "0.5") -> Running:
        command = [sys.executable, "-m", "tests.apps.waiting_worker", way, kind, goes_on_s]
        env = {"HAPAX_URL": server.url, "HAPAX_TOKEN": server.token}
        started.append(Running(command, r"(hapax worker: jobs of the kinds .*)", env=env, cwd=PYTHON_FOLDER))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def ended(worker: Running) -> str:
    worker.process.wait(timeout=ENDS_WITHIN_S)
    # What it said until its last word has been read.
    worker.reader.join(timeout=ENDS_WITHIN_S)
    return "".join(worker.said)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_ctrl_c_ends_a_worker_that_waits_without_a_traceback(start_worker: Callable[..., Running], way: str) -> None:
    worker = start_worker(way, f"k{uuid.uuid4().hex[:16]}")
    worker.process.send_signal(signal.SIGINT)
    said = ended(worker)
    assert worker.process.returncode == 0, said
    assert "Traceback" not in said
    assert said.splitlines()[-2:] == [
        "hapax worker: stopping: what runs comes to its end; Ctrl-C again to stop now",
        "0 attempts",
    ]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_ctrl_c_lets_what_runs_come_to_its_end(client: Hapax, start_worker: Callable[..., Running], way: str) -> None:
    kind = f"k{uuid.uuid4().hex[:16]}"
    planned = client.jobs.plan(work_id="w", artifact_id="a", canonical_url="u", kind=kind)
    worker = start_worker(way, kind)
    worker.wait_for(r"(began)")
    worker.process.send_signal(signal.SIGINT)
    said = ended(worker)
    assert (worker.process.returncode, "Traceback" in said) == (0, False), said
    assert said.endswith("1 attempts\n")
    shown = client.jobs.get(planned["job_id"])
    assert (shown["state"], shown["result"]) == ("INDEXED", "came to its end")


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_second_ctrl_c_ends_it_at_once_and_without_a_traceback(
    client: Hapax, start_worker: Callable[..., Running], way: str
) -> None:
    kind = f"k{uuid.uuid4().hex[:16]}"
    client.jobs.plan(work_id="w", artifact_id="a", canonical_url="u", kind=kind)
    worker = start_worker(way, kind, "600")
    worker.wait_for(r"(began)")
    worker.process.send_signal(signal.SIGINT)
    worker.wait_for(r"(stopping)")
    worker.process.send_signal(signal.SIGINT)
    said = ended(worker)
    assert (worker.process.returncode, "Traceback" in said) == (-signal.SIGINT, False), said

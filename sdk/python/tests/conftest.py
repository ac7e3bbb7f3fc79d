"""The servers that the tests share: one per store without a worker, and one per store with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Callable, TypeVar

import pytest

from hapax import AsyncHapax, Hapax

from .server import Server, postgres_database

T = TypeVar("T")
STORES = ("sqlite", "postgres")


def started(store: str, folder: Path, *options: str, **env: str) -> Server:
    return Server(folder, postgres_database() if store == "postgres" else None, *options, env=env)


@pytest.fixture(scope="session", params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def server(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that runs no jobs by itself."""
    folder = tmp_path_factory.mktemp("hapax")
    config = folder / "hapax.toml"
    config.write_text('[[routes]]\npattern = "*:*"\nstore_headers = ["x-shop"]\n', encoding="utf-8")
    running = started(store, folder, "--no-worker", "--config", str(config))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def mail_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mail")


@pytest.fixture(scope="session")
def busy_server(store: str, mail_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that also works: intents and imports need it."""
    running = started(store, tmp_path_factory.mktemp("hapax"), EMAIL_IMPORT_ROOT=str(mail_root))
    yield running
    running.stop()


@pytest.fixture
def client(server: Server) -> Iterator[Hapax]:
    with Hapax(server.url, server.token) as made:
        yield made


@pytest.fixture
def busy(busy_server: Server) -> Iterator[Hapax]:
    with Hapax(busy_server.url, busy_server.token) as made:
        yield made


@pytest.fixture
def with_async(server: Server) -> Callable[[Callable[[AsyncHapax], Coroutine[Any, Any, T]]], T]:
    """Runs a coroutine function with a client of its own event loop."""

    def run(test: Callable[[AsyncHapax], Coroutine[Any, Any, T]]) -> T:
        async def whole() -> T:
            async with AsyncHapax(server.url, server.token) as made:
                return await test(made)

        return asyncio.run(asyncio.wait_for(whole(), 60))

    return run

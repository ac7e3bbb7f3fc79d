"""A real server for the tests: started on a free port, stopped by its own handle."""

from __future__ import annotations

import os
import queue
import re
import secrets
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional

REPOSITORY = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("HAPAX_BIN", REPOSITORY / "target" / "debug" / "hapax"))
STARTS_WITHIN_S = 60.0


class Running:
    """A process that says on which address it listens."""

    def __init__(
        self, command: Sequence[str], says: str, *, env: Optional[Mapping[str, str]] = None, cwd: Optional[Path] = None
    ) -> None:
        self.process = subprocess.Popen(
            list(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        self._lines: queue.Queue[Optional[str]] = queue.Queue()
        self.said: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            self.url = self.wait_for(says)
        except BaseException:
            self.stop()
            raise

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, says: str) -> str:
        pattern = re.compile(says)
        ends_at = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.1, ends_at - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"it did not start in time; it said: {''.join(self.said)}") from None
            if line is None:
                raise AssertionError(f"it ended before it listened; it said: {''.join(self.said)}")
            match = pattern.search(line)
            if match:
                return match.group(1)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait_until_dead(self) -> None:
        self.process.wait(timeout=20)


class Server(Running):
    """`hapax serve` with a token of its own."""

    def __init__(
        self, folder: Path, database: Optional[str], *options: str, env: Optional[Mapping[str, str]] = None
    ) -> None:
        assert BINARY.exists(), f"{BINARY} is missing; build it with: cargo build -p hapax-server, or set HAPAX_BIN"
        self.token = f"test-{secrets.token_hex(16)}"
        command = [str(BINARY), "serve", "--listen", "127.0.0.1:0", "--data", str(folder), *options]
        if database:
            command += ["--database", database]
        super().__init__(
            command, r"listening on (http://\S+)", env={"HAPAX_TOKEN": self.token, "RUST_LOG": "warn", **(env or {})}
        )


def postgres_database() -> str:
    """A new, empty database; its name is left to chance."""
    url = os.environ.get("HAPAX_TEST_POSTGRES")
    assert url, "HAPAX_TEST_POSTGRES is not set; run the tests through: dev/with-postgres sdk/python/check"
    name = f"sdk_python_{uuid.uuid4().hex}"
    subprocess.run(["psql", url, "-qc", f'CREATE DATABASE "{name}"'], check=True, capture_output=True, timeout=60)
    return url.rsplit("/", 1)[0] + "/" + name

"""Keeps leases alive while something runs: beside it on a thread, or as a task."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Awaitable, Callable, Optional


class Heartbeat:
    """Calls `beat` every `every_s` seconds on a thread until the block ends, or `beat` says False."""

    def __init__(self, beat: Callable[[], bool], every_s: float) -> None:
        self._beat = beat
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hapax-heartbeat", daemon=True)

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            if not self._beat():
                return

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it. A beat that is under way is waited for."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


class AsyncHeartbeat:
    """The same as a task."""

    def __init__(self, beat: Callable[[], Awaitable[bool]], every_s: float) -> None:
        self._beat = beat
        self._every_s = every_s
        self._task: Optional[asyncio.Task[None]] = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            if not await self._beat():
                return

    async def __aenter__(self) -> AsyncHeartbeat:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Ends it, and waits until it has ended."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

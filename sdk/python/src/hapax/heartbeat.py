"""Keeps leases alive while something runs: beside it on a thread, or as a task."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Awaitable, Callable, Optional

# A renewal that takes longer has most likely lost its answer.
_BEAT_ENDS_WITHIN_S = 5.0


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
        self._over: Optional[asyncio.Event] = None
        self._task: Optional[asyncio.Task[None]] = None

    async def _run(self, over: asyncio.Event) -> None:
        while True:
            try:
                await asyncio.wait_for(over.wait(), self._every_s)
            except asyncio.TimeoutError:
                if not await self._beat():
                    return
            else:
                return

    async def __aenter__(self) -> AsyncHeartbeat:
        self._over = asyncio.Event()
        self._task = asyncio.ensure_future(self._run(self._over))
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Ends it. A beat that is under way is waited for, but not for long: what it learns is needed afterwards."""
        task, self._task = self._task, None
        if task is None or self._over is None:
            return
        self._over.set()
        await asyncio.wait({task}, timeout=_BEAT_ENDS_WITHIN_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

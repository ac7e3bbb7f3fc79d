"""Workers: lease jobs, run their handlers, keep the leases, and record how they end.

`Worker` runs handlers on threads, `AsyncWorker` runs coroutines. Neither writes anything under a lease that is lost:
the thread's job says so (`job.check()`), the coroutine is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional, TypeVar

from ._async.client import AsyncHapax
from ._async.held import AsyncHeldJob
from ._sync.client import Hapax
from ._sync.held import HeldJob
from .errors import EffectFailed, Error, GiveUp, LeaseLost, RetryLater
from .heartbeat import AsyncHeartbeat, Heartbeat
from .shapes import Job

_log = logging.getLogger("hapax.worker")
_IDLE_S = 1.0
CONCURRENCY_MAX = 256

Handler = Callable[[HeldJob], Any]
AsyncHandler = Callable[[AsyncHeldJob], Awaitable[Any]]
F = TypeVar("F", bound=Callable[..., Any])


def job(kind: str) -> Callable[[F], F]:
    """Marks a function as the handler of a kind of jobs. Pass it to a worker."""

    def mark(handler: F) -> F:
        handler.__hapax_kind__ = kind  # type: ignore[attr-defined]
        return handler

    return mark


def default_owner() -> str:
    """A name that no other worker has."""
    return f"{socket.gethostname()[:64]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _by_kind(
    handlers: Sequence[Callable[..., Any]], kinds: Optional[Mapping[str, Callable[..., Any]]]
) -> dict[str, Any]:
    found = dict(kinds or {})
    for handler in handlers:
        kind = getattr(handler, "__hapax_kind__", None)
        if kind is None:
            raise ValueError(f"{handler.__name__} has no kind; put @job(kind) above it")
        if kind in found:
            raise ValueError(f"two handlers for jobs of the kind {kind}")
        found[kind] = handler
    if not found:
        raise ValueError("a worker needs handlers; pass functions that have @job(kind) above them")
    return found


def _check_concurrency(concurrency: int, ttl_s: float) -> None:
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise ValueError(f"concurrency must be from 1 to {CONCURRENCY_MAX}")
    if ttl_s <= 0:
        raise ValueError("ttl_s must be more than 0")


def _say(line: str) -> None:
    """Logs a line; a program that has set up no logging prints it."""
    if _log.hasHandlers():
        _log.info(line)
    else:
        print(f"hapax worker: {line}", file=sys.stderr, flush=True)


def _started(base_url: str, handlers: Mapping[str, Any], concurrency: int) -> str:
    kinds = ", ".join(sorted(handlers))
    return f"jobs of the kinds {kinds} from {base_url}, {concurrency} at once; Ctrl-C ends it"


_STOPPING = "stopping: what runs comes to its end; Ctrl-C again to stop now"


def _is_free(handler: Any) -> bool:
    """Whether Ctrl-C is nobody's yet: Python's own handler, or that of asyncio.run."""
    made_by = getattr(handler, "func", handler)
    return handler is signal.default_int_handler or getattr(made_by, "__module__", None) == "asyncio.runners"


@contextmanager
def _stopped_by_ctrl_c(stop: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C calls `stop`, and a second one ends the process. On the main thread only, and where nobody else has taken
    it. An interrupt would not do: threads that run handlers, and their joins, outlive it."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not is_main or not _is_free(before):
        yield
        return

    def once(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _say(_STOPPING)
        stop()

    signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) in (once, signal.SIG_DFL):
            signal.signal(signal.SIGINT, before)


def _failure(error: Exception) -> dict[str, Any]:
    """How an attempt that ended with this error is recorded."""
    told: dict[str, Any] = {"error": f"{type(error).__name__}: {error}"}
    if isinstance(error, (GiveUp, EffectFailed)):
        told["retryable"] = False
    if isinstance(error, RetryLater):
        told["retry_after_s"] = error.seconds
    return told


class Worker:
    """Runs jobs on threads: `Worker(client, [handler, …]).run()`.

    A handler takes the job and returns its result. An error fails the attempt, GiveUp for good, RetryLater with a rest.
    `stop()` lets what runs come to its end, and so does Ctrl-C.
    """

    def __init__(
        self,
        client: Hapax,
        handlers: Sequence[Handler] = (),
        *,
        kinds: Optional[Mapping[str, Handler]] = None,
        concurrency: int = 4,
        owner: Optional[str] = None,
        ttl_s: float = 120.0,
        idle_s: float = _IDLE_S,
    ) -> None:
        _check_concurrency(concurrency, ttl_s)
        self._client = client
        self._handlers: dict[str, Handler] = _by_kind(handlers, kinds)
        self._concurrency = concurrency
        self.owner = owner or default_owner()
        self._ttl_s = ttl_s
        self._idle_s = idle_s
        self._is_stopping = False
        # An event's lock may be held by the very thread that a signal handler interrupts; this queue may be put to there.
        self._wake: SimpleQueue[None] = SimpleQueue()

    def stop(self) -> None:
        """Takes no more jobs; `run` returns when those that run have ended. Safe in a signal handler."""
        self._is_stopping = True
        self._wake.put(None)

    def run(self, *, until_idle: bool = False) -> int:
        """Runs until `stop`; with `until_idle` until no job is due. How many attempts were made."""
        self._client.check_token()
        with _stopped_by_ctrl_c(self.stop):
            _say(_started(self._client.base_url, self._handlers, self._concurrency))
            return self._run(until_idle)

    def _run(self, until_idle: bool) -> int:
        attempts = 0
        running: set[Future[None]] = set()
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="hapax-worker") as pool:
            while not self._is_stopping:
                running = {future for future in running if not future.done()}
                room = self._concurrency - len(running)
                leased = self._lease(room) if room else []
                attempts += len(leased)
                running |= {pool.submit(self._attempt, leased_job) for leased_job in leased}
                if until_idle and not running:
                    break
                if not leased:
                    self._rest(running)
        return attempts

    def _rest(self, running: set[Future[None]]) -> None:
        if running:
            wait(running, timeout=self._idle_s, return_when=FIRST_COMPLETED)
        else:
            self._pause()

    def _pause(self) -> None:
        with suppress(Empty):
            self._wake.get(timeout=self._idle_s)

    def _lease(self, limit: int) -> list[Job]:
        try:
            return self._client.jobs.lease(
                owner=self.owner, ttl_s=self._ttl_s, kinds=sorted(self._handlers), limit=limit
            )
        except Error as error:
            _log.warning("no jobs could be leased, trying again: %s", error)
            self._pause()
            return []

    def _attempt(self, leased: Job) -> None:
        held = HeldJob(self._client, leased, self.owner, self._ttl_s)

        def beat() -> bool:
            try:
                held.renew()
            except LeaseLost:
                _log.warning("job %s was lost while it ran", held.job_id)
                return False
            except Error as error:
                _log.warning("the lease of job %s was not renewed: %s", held.job_id, error)
            return not held.is_over

        try:
            with Heartbeat(beat, self._ttl_s / 3):
                result = self._handlers[held.kind](held)
            if not held.is_lost:
                held.finish(result)
        except LeaseLost:
            _log.warning("job %s is somebody else's; nothing more is written", held.job_id)
        except Exception as error:
            _log.warning("job %s failed: %r", held.job_id, error)
            self._fail(held, error)

    def _fail(self, held: HeldJob, error: Exception) -> None:
        if held.is_lost or held.is_over:
            return
        try:
            held.fail(**_failure(error))
        except Error as why:
            _log.warning("that job %s failed was not recorded; its lease will run out: %s", held.job_id, why)


class AsyncWorker:
    """The same for coroutines. A handler whose lease is lost is cancelled."""

    def __init__(
        self,
        client: AsyncHapax,
        handlers: Sequence[AsyncHandler] = (),
        *,
        kinds: Optional[Mapping[str, AsyncHandler]] = None,
        concurrency: int = 16,
        owner: Optional[str] = None,
        ttl_s: float = 120.0,
        idle_s: float = _IDLE_S,
    ) -> None:
        _check_concurrency(concurrency, ttl_s)
        self._client = client
        self._handlers: dict[str, AsyncHandler] = _by_kind(handlers, kinds)
        self._concurrency = concurrency
        self.owner = owner or default_owner()
        self._ttl_s = ttl_s
        self._idle_s = idle_s
        self._is_stopping = False
        self._wake: Optional[asyncio.Event] = None

    def stop(self) -> None:
        """Takes no more jobs; `run` returns when those that run have ended."""
        self._is_stopping = True
        if self._wake is not None:
            self._wake.set()

    async def run(self, *, until_idle: bool = False) -> int:
        """Runs until `stop`; with `until_idle` until no job is due. How many attempts were made."""
        self._client.check_token()
        self._wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        # The handler runs between two steps of Python; the loop is woken by the call that it makes.
        with _stopped_by_ctrl_c(lambda: loop.call_soon_threadsafe(self.stop)):
            _say(_started(self._client.base_url, self._handlers, self._concurrency))
            return await self._run(until_idle)

    async def _run(self, until_idle: bool) -> int:
        attempts = 0
        running: set[asyncio.Task[None]] = set()
        try:
            while not self._is_stopping:
                running = {task for task in running if not task.done()}
                room = self._concurrency - len(running)
                leased = await self._lease(room) if room else []
                attempts += len(leased)
                running |= {asyncio.ensure_future(self._attempt(leased_job)) for leased_job in leased}
                if until_idle and not running:
                    break
                if not leased:
                    await self._rest(running)
        finally:
            await asyncio.gather(*running, return_exceptions=True)
        return attempts

    async def _rest(self, running: set[asyncio.Task[None]]) -> None:
        assert self._wake is not None
        woken = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait({woken, *running}, timeout=self._idle_s, return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()

    async def _lease(self, limit: int) -> list[Job]:
        try:
            return await self._client.jobs.lease(
                owner=self.owner, ttl_s=self._ttl_s, kinds=sorted(self._handlers), limit=limit
            )
        except Error as error:
            _log.warning("no jobs could be leased, trying again: %s", error)
            await asyncio.sleep(self._idle_s)
            return []

    async def _attempt(self, leased: Job) -> None:
        held = AsyncHeldJob(self._client, leased, self.owner, self._ttl_s)
        handler: asyncio.Future[Any] = asyncio.ensure_future(self._handlers[held.kind](held))

        async def beat() -> bool:
            try:
                await held.renew()
            except LeaseLost:
                _log.warning("job %s was lost while it ran; its handler is cancelled", held.job_id)
                handler.cancel()
                return False
            except Error as error:
                _log.warning("the lease of job %s was not renewed: %s", held.job_id, error)
            return not held.is_over

        try:
            async with AsyncHeartbeat(beat, self._ttl_s / 3):
                result = await handler
            await held.finish(result)
        except (LeaseLost, asyncio.CancelledError):
            if not held.is_lost:
                raise
            _log.warning("job %s is somebody else's; nothing more is written", held.job_id)
        except Exception as error:
            _log.warning("job %s failed: %r", held.job_id, error)
            await self._fail(held, error)
        finally:
            handler.cancel()

    async def _fail(self, held: AsyncHeldJob, error: Exception) -> None:
        if held.is_lost or held.is_over:
            return
        try:
            await held.fail(**_failure(error))
        except Error as why:
            _log.warning("that job %s failed was not recorded; its lease will run out: %s", held.job_id, why)

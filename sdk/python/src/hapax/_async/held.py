"""A leased job as its worker sees it: every write names the lease, and none is sent once that is lost."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Callable, Optional, Union

import httpx

from ..effects import MAY_HAVE_HAPPENED, OpRun, failed, in_doubt, in_progress
from ..errors import GiveUp, LeaseLost, StateTransitionDenied, Unknown
from ..shapes import Begun, Job
from .client import AsyncHapax

AsyncEffect = Callable[[OpRun], Union[Awaitable[Any], Any]]


class AsyncHeldJob:
    """A job, and the lease on it."""

    def __init__(self, client: AsyncHapax, job: Job, owner: str, ttl_s: float) -> None:
        self._client = client
        self.job = job
        self.owner = owner
        self.ttl_s = ttl_s
        self.epoch = job["epoch"]
        self.is_lost = False
        self.is_over = False

    @property
    def job_id(self) -> str:
        return self.job["job_id"]

    @property
    def kind(self) -> str:
        return self.job["kind"]

    @property
    def state(self) -> str:
        return self.job["state"]

    @property
    def payload(self) -> Any:
        return self.job["payload"]

    def check(self) -> None:
        """Raises LeaseLost if somebody else has the job. Long handlers call it now and then."""
        if self.is_lost:
            raise LeaseLost("lease_lost", f"job {self.job_id} is somebody else's now; stop, and write nothing more")

    async def renew(self) -> None:
        """Keeps the lease for another `ttl_s` seconds."""
        self.check()
        try:
            await self._client.jobs.renew(self.job_id, ttl_s=self.ttl_s, **self._fence())
        except LeaseLost:
            self.is_lost = True
            raise

    async def advance(self, to_state: str, *, allowed_from: Optional[Sequence[str]] = None, result: Any = None) -> Job:
        """Moves the job along the graph."""
        self.check()
        try:
            self.job = await self._client.jobs.advance(
                self.job_id, to_state, allowed_from=allowed_from, result=result, **self._fence()
            )
        except LeaseLost:
            self.is_lost = True
            raise
        self.is_over = to_state in ("INDEXED", "DEDUPED", "SKIPPED_DUPLICATE")
        return self.job

    async def finish(self, result: Any = None) -> None:
        """Ends the job well: through FINALIZED, which is reached from LEASED and STREAMING, to INDEXED."""
        if self.is_over:
            return
        self.check()
        items: list[dict[str, Any]] = []
        if self.state != "FINALIZED":
            items.append({"job_id": self.job_id, "to_state": "FINALIZED", **self._fence()})
        last: dict[str, Any] = {"job_id": self.job_id, "to_state": "INDEXED", **self._fence()}
        if result is not None:
            last["result"] = result
        items.append(last)
        told = await self._client.jobs.settle(items)
        # After a lost answer the first step is refused, and the last one says that all is done.
        if "error" in told[-1]:
            self._raise_for(told[0].get("error") or told[-1]["error"])
        self.is_over = True

    def _raise_for(self, error: dict[str, Any]) -> None:
        if error["code"] == "lease_lost":
            self.is_lost = True
            raise LeaseLost(error["code"], error["message"], details=error.get("details"), status=409)
        raise StateTransitionDenied(error["code"], error["message"], details=error.get("details"), status=409)

    async def fail(self, error: Any, *, retryable: bool = True, retry_after_s: Optional[float] = None) -> None:
        """Ends this attempt."""
        self.check()
        self.is_over = True
        await self._client.jobs.fail(
            self.job_id, error=error, retryable=retryable, retry_after_s=retry_after_s, **self._fence()
        )

    async def release(self) -> None:
        """Gives the job back at once; progress is kept."""
        self.check()
        self.is_over = True
        await self._client.jobs.release(self.job_id, **self._fence())

    async def run_effect(
        self,
        kind: str,
        context: Optional[Mapping[str, Any]],
        effect: AsyncEffect,
        *,
        advance_to: Optional[str] = None,
        op_key: Optional[str] = None,
        op_class: str = "at_most_once",
        probe: Optional[AsyncEffect] = None,
    ) -> Any:
        """Runs an effect whose result is recorded once, and gives the recorded one ever after.

        `effect(op)` acts; send `op.op_key` downstream as its idempotency key where the receiver takes one. If its
        runner dies, `op_class` says what then: replayable and keyed run again, at_most_once and probe are in doubt.
        With `probe`, doubt is ended here: it answers a result that it found, or None if nothing happened.
        """
        while True:
            self.check()
            begun = await self._begin(kind, context, op_key, op_class)
            action = begun["action"]
            if action == "execute":
                return await self._execute(begun, effect, advance_to, op_class)
            if action == "replay":
                if advance_to is not None and self.state != advance_to:
                    # The result and the state were recorded together, perhaps by an earlier lease.
                    self.job = await self._client.jobs.get(self.job_id)
                return begun.get("result")
            if action == "in_progress":
                raise in_progress(begun)
            if action != "in_doubt":
                raise failed(begun)
            if probe is None:
                raise in_doubt(begun)
            await self._ask(begun, probe)

    async def _begin(
        self, kind: str, context: Optional[Mapping[str, Any]], op_key: Optional[str], op_class: str
    ) -> Begun:
        try:
            return await self._client.ops.begin(
                job_id=self.job_id, kind=kind, context=context, op_key=op_key, op_class=op_class, **self._fence()
            )
        except LeaseLost:
            self.is_lost = True
            raise

    async def _execute(self, begun: Begun, effect: AsyncEffect, advance_to: Optional[str], op_class: str) -> Any:
        key, token = begun["op_key"], begun["token"]
        try:
            result = await _called(effect, OpRun(key, begun["job_id"], begun["kind"], begun["tries"]))
        except Unknown as error:
            raise in_doubt(begun) from error
        except GiveUp as error:
            await self._client.ops.fail(key, token=token, error=str(error), retryable=False, **self._fence())
            raise
        except (httpx.TransportError, OSError, TimeoutError) as error:
            if op_class in MAY_HAVE_HAPPENED:
                # It may have reached the other side. Only who can ask there may say that it failed.
                raise in_doubt(begun) from error
            await self._client.ops.fail(key, token=token, error=repr(error), **self._fence())
            raise
        except Exception as error:
            self.check()
            await self._client.ops.fail(key, token=token, error=repr(error), **self._fence())
            raise
        self.check()
        op = await self._client.ops.complete(key, token=token, result=result, advance_to=advance_to, **self._fence())
        self.job["state"] = op["job_state"]
        self.is_over = op["job_state"] in ("INDEXED", "DEDUPED", "SKIPPED_DUPLICATE")
        return result

    async def _ask(self, begun: Begun, probe: AsyncEffect) -> None:
        found = await _called(probe, OpRun(begun["op_key"], begun["job_id"], begun["kind"], begun["tries"]))
        if found is None:
            await self._client.ops.resolve(begun["op_key"], retry=True, **self._fence())
        else:
            await self._client.ops.resolve(begun["op_key"], result=found, **self._fence())

    def _fence(self) -> dict[str, Any]:
        return {"owner": self.owner, "epoch": self.epoch}


async def _called(function: AsyncEffect, op: OpRun) -> Any:
    told = function(op)
    return await told if inspect.isawaitable(told) else told


async def async_run_effect(
    job: AsyncHeldJob,
    kind: str,
    context: Optional[Mapping[str, Any]],
    effect: AsyncEffect,
    advance_to: Optional[str] = None,
    **options: Any,
) -> Any:
    """`job.run_effect` as a function."""
    return await job.run_effect(kind, context, effect, advance_to=advance_to, **options)

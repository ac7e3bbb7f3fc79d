# Made by tools/make_sync from _async; change it there.
"""Jobs and operations over HTTP, as the server has them. The worker's view of a job is in `held`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, List, Optional, cast
from uuid import uuid4

from ..sending import UNSET
from ..shapes import (
    Begun,
    EndedOp,
    Job,
    JobCounts,
    JobWhole,
    Op,
    Page,
    PlannedJob,
    PlannedShort,
    Reconciled,
    SettledJob,
)
from ..transport import Call, given, path
from .transport import Transport

TTL_S = 120.0


class Jobs:
    """Jobs. `lease` is not repeated after a lost answer: what was leased then comes back when its time is over.
    A repeated `release` may be told lease_lost."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def plan(
        self,
        *,
        work_id: str,
        artifact_id: str,
        canonical_url: str,
        kind: Optional[str] = None,
        payload: Any = None,
        max_attempts: Optional[int] = None,
        backoff_ms: Optional[int] = None,
    ) -> PlannedJob:
        """Plans a job, or answers the one that is there. It rests `backoff_ms` after its first failure, 0 for not at
        all, and four times as long after each that follows; a second if nothing is said."""
        body = given(
            kind=kind,
            work_id=work_id,
            artifact_id=artifact_id,
            canonical_url=canonical_url,
            payload=payload,
            max_attempts=max_attempts,
            backoff_ms=backoff_ms,
        )
        return cast(PlannedJob, self._transport.json(Call("POST", "/v1/jobs", body)))

    def plan_batch(self, jobs: Sequence[Mapping[str, Any]]) -> List[PlannedShort]:
        """Plans many; one that has not the form of a job refuses them all."""
        told = self._transport.json(Call("POST", "/v1/jobs/batch", {"jobs": [dict(job) for job in jobs]}))
        return cast(List[PlannedShort], told["items"])

    def lease(
        self, *, owner: str, ttl_s: float = TTL_S, kinds: Optional[Sequence[str]] = None, limit: int = 1
    ) -> builtins.list[Job]:
        """Leases jobs that are due; none is an empty list."""
        body = given(owner=owner, ttl_s=ttl_s, kinds=None if kinds is None else list(kinds), limit=limit)
        told = self._transport.json(Call("POST", "/v1/jobs/lease", body, repeatable=False))
        return cast("builtins.list[Job]", told["jobs"])

    def renew(
        self, job_id: str, *, owner: Optional[str] = None, epoch: Optional[int] = None, ttl_s: float = TTL_S
    ) -> Job:
        """Keeps the lease for this long from now."""
        return self._act(job_id, "renew", given(owner=owner, epoch=epoch, ttl_s=ttl_s))

    def release(self, job_id: str, *, owner: Optional[str] = None, epoch: Optional[int] = None) -> Job:
        """Gives the lease back at once; progress is kept."""
        return self._act(job_id, "release", given(owner=owner, epoch=epoch))

    def advance(
        self,
        job_id: str,
        to_state: str,
        *,
        owner: Optional[str] = None,
        epoch: Optional[int] = None,
        allowed_from: Optional[Sequence[str]] = None,
        result: Any = None,
    ) -> Job:
        """Moves the job along the server's graph; `allowed_from` can only narrow it."""
        body = given(
            owner=owner,
            epoch=epoch,
            to_state=to_state,
            allowed_from=None if allowed_from is None else list(allowed_from),
            result=result,
        )
        return self._act(job_id, "advance", body)

    def fail(
        self,
        job_id: str,
        *,
        owner: Optional[str] = None,
        epoch: Optional[int] = None,
        error: Any = None,
        retryable: bool = True,
        retry_after_s: Optional[float] = None,
    ) -> Job:
        """Ends an attempt that failed. The job rests and is leased again, or is given up."""
        body = given(owner=owner, epoch=epoch, error=error, retryable=retryable, retry_after_s=retry_after_s)
        return self._act(job_id, "fail", body)

    def settle(self, items: Sequence[Mapping[str, Any]]) -> builtins.list[SettledJob]:
        """Advances and fails many; two items of one job happen in order. Each answer is `ok`, or has an `error`."""
        told = self._transport.json(Call("POST", "/v1/jobs/settle", {"items": [dict(item) for item in items]}))
        return cast("builtins.list[SettledJob]", told["items"])

    def retry(self, job_id: str) -> Job:
        """An owner's word: a failed or given-up job starts over."""
        return self._act(job_id, "retry", None)

    def list(
        self,
        *,
        state: Optional[str] = None,
        kind: Optional[str] = None,
        work_id: Optional[str] = None,
        held: Optional[bool] = None,
        limit: Optional[int] = None,
    ) -> Iterator[Job]:
        """All jobs, newest first."""
        query = given(state=state, kind=kind, work_id=work_id, held=held, limit=limit)
        return self._transport.items(Call("GET", "/v1/jobs", query=query))

    def page(self, *, limit: Optional[int] = None, cursor: Optional[str] = None) -> Page[Job]:
        """One page of jobs."""
        return self._transport.page(Call("GET", "/v1/jobs", query=given(limit=limit, cursor=cursor)))

    def get(self, job_id: str) -> JobWhole:
        """A job with its operations."""
        return cast(JobWhole, self._transport.json(Call("GET", path("v1", "jobs", job_id))))

    def stats(self) -> JobCounts:
        """How many jobs there are, by kind and state."""
        return cast(JobCounts, self._transport.json(Call("GET", "/v1/jobs/stats")))

    def reconcile(self, *, dry_run: bool = False) -> Reconciled:
        """Cleans up after dead workers. For an owner."""
        return cast(Reconciled, self._transport.json(Call("POST", "/v1/reconcile", {"dry_run": dry_run})))

    def _act(self, job_id: str, verb: str, body: Optional[dict[str, Any]]) -> Job:
        return cast(Job, self._transport.json(Call("POST", path("v1", "jobs", job_id, verb), body)))


class Ops:
    """Operations of jobs. Every call may be repeated: `begin` carries a token of its own.

    While somebody holds the job, `owner` and `epoch` are both needed: whoever reads the job reads the epoch.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def begin(
        self,
        *,
        job_id: str,
        kind: str,
        op_key: Optional[str] = None,
        context: Optional[Mapping[str, Any]] = None,
        owner: Optional[str] = None,
        epoch: Optional[int] = None,
        op_class: Optional[str] = None,
        token: Optional[str] = None,
    ) -> Begun:
        """Begins an operation, or says what became of it.

        `op_class` (tx, keyed, probe, replayable, at_most_once) says what may be done after its runner died;
        the server takes at_most_once where nothing is said.
        """
        body = given(
            job_id=job_id,
            kind=kind,
            op_key=op_key,
            context=None if context is None else dict(context),
            owner=owner,
            epoch=epoch,
            token=token or uuid4().hex,
        )
        if op_class is not None:
            body["class"] = op_class
        return cast(Begun, self._transport.json(Call("POST", "/v1/ops/begin", body)))

    def complete(
        self,
        op_key: str,
        *,
        token: str,
        result: Any,
        advance_to: Optional[str] = None,
        owner: Optional[str] = None,
        epoch: Optional[int] = None,
    ) -> EndedOp:
        """Records the result, and moves the job in the same transaction."""
        body = given(token=token, advance_to=advance_to, owner=owner, epoch=epoch)
        body["result"] = result
        return self._act(op_key, "complete", body)

    def fail(
        self,
        op_key: str,
        *,
        token: str,
        error: Any,
        retryable: bool = True,
        owner: Optional[str] = None,
        epoch: Optional[int] = None,
    ) -> EndedOp:
        """Records that it failed, for now or for good."""
        return self._act(
            op_key, "fail", given(token=token, error=error, retryable=retryable, owner=owner, epoch=epoch)
        )

    def resolve(
        self,
        op_key: str,
        *,
        result: Any = UNSET,
        retry: Optional[bool] = None,
        error: Any = None,
        owner: Optional[str] = None,
        epoch: Optional[int] = None,
    ) -> EndedOp:
        """Ends doubt by one of result, retry=True and error. A holder names its lease; an owner need not."""
        body = given(retry=retry, error=error, owner=owner, epoch=epoch)
        if result is not UNSET:
            body["result"] = result
        return self._act(op_key, "resolve", body)

    def get(self, op_key: str) -> Op:
        """One operation."""
        return cast(Op, self._transport.json(Call("GET", path("v1", "ops", op_key))))

    def _act(self, op_key: str, verb: str, body: dict[str, Any]) -> EndedOp:
        return cast(EndedOp, self._transport.json(Call("POST", path("v1", "ops", op_key, verb), body)))

"""The functions of the older download ledger, by their names, over the HTTP API.

Each takes a client where there was a connection. The lease that `lease_next_job` took is remembered per client, so the
other functions need no epoch, which is what fences a worker that was too slow; give `epoch=` to name another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Optional, Union
from weakref import WeakKeyDictionary

from ._sync.client import Hapax
from ._sync.held import HeldJob
from .errors import HapaxError, LeaseLost
from .keys import job_key, op_key
from .shapes import Job, Reconciled

__all__ = [
    "advance_state",
    "cleanup_stale_leases",
    "cleanup_stale_ops",
    "get_current_state",
    "get_effect_result",
    "job_key",
    "lease_next_job",
    "op_key",
    "plan_job_if_absent",
    "reconcile_jobs",
    "release_lease",
    "renew_lease",
    "run_effect",
]

_leases: WeakKeyDictionary[Hapax, dict[str, tuple[str, int]]] = WeakKeyDictionary()


def plan_job_if_absent(
    client: Hapax,
    *,
    work_id: str,
    artifact_id: str,
    canonical_url: str,
    kind: Optional[str] = None,
    payload: Any = None,
) -> str:
    """Plans the job and gives its id; the same work, artifact and URL give the same id."""
    planned = client.jobs.plan(
        work_id=work_id, artifact_id=artifact_id, canonical_url=canonical_url, kind=kind, payload=payload
    )
    return planned["job_id"]


def lease_next_job(
    client: Hapax, *, owner: str, ttl_s: float = 120, kinds: Optional[Sequence[str]] = None
) -> Optional[Job]:
    """Leases the next job that is due, or gives None."""
    for leased in client.jobs.lease(owner=owner, ttl_s=ttl_s, kinds=kinds):
        _leases.setdefault(client, {})[leased["job_id"]] = (owner, leased["epoch"])
        return leased
    return None


def renew_lease(client: Hapax, *, job_id: str, owner: str, ttl_s: float = 120, epoch: Optional[int] = None) -> bool:
    """Keeps the lease. False when it is lost."""
    try:
        client.jobs.renew(job_id, ttl_s=ttl_s, **_fence(client, job_id, owner, epoch))
    except LeaseLost:
        return False
    return True


def release_lease(client: Hapax, *, job_id: str, owner: str, epoch: Optional[int] = None) -> bool:
    """Gives the job back. False when there was nothing to give back."""
    fence = _fence(client, job_id, owner, epoch)
    _leases.get(client, {}).pop(job_id, None)
    try:
        client.jobs.release(job_id, **fence)
    except LeaseLost:
        return False
    return True


def advance_state(
    client: Hapax,
    *,
    job_id: str,
    to_state: str,
    allowed_from: Optional[Sequence[str]] = None,
    owner: Optional[str] = None,
    epoch: Optional[int] = None,
) -> Job:
    """Moves the job. StateTransitionDenied, which is a RuntimeError, where the graph or `allowed_from` says no."""
    fence = _fence(client, job_id, owner, epoch)
    if to_state == "FAILED":
        return client.jobs.fail(job_id, **fence)
    return client.jobs.advance(job_id, to_state, allowed_from=allowed_from, **fence)


def get_current_state(client: Hapax, *, job_id: str) -> str:
    """The state of the job."""
    return client.jobs.get(job_id)["state"]


def run_effect(
    client: Hapax,
    *,
    job_id: str,
    kind: str,
    opkey: str,
    effect_fn: Callable[[], Any],
    owner: Optional[str] = None,
    epoch: Optional[int] = None,
    advance_to: Optional[str] = None,
    op_class: str = "at_most_once",
) -> Any:
    """Runs the effect and records its result once; a second call gives the recorded one.

    If the process dies while the effect runs, the next call raises EffectInDoubt unless `op_class` says that it may
    run again (replayable, keyed).
    """
    fence = _fence(client, job_id, owner, epoch)
    held = HeldJob(client, client.jobs.get(job_id), str(fence.get("owner", "")), 120)
    if "epoch" in fence:
        held.epoch = fence["epoch"]
    return held.run_effect(kind, None, lambda _: effect_fn(), op_key=opkey, advance_to=advance_to, op_class=op_class)


def get_effect_result(client: Hapax, *, opkey: str) -> Optional[Any]:
    """The recorded result of an operation, or None if there is none."""
    try:
        return client.ops.get(opkey)["result"]
    except HapaxError as error:
        if error.code != "not_found":
            raise
        return None


def reconcile_jobs(client: Hapax, staging_root: Union[str, Path, None] = None, *, dry_run: bool = False) -> Reconciled:
    """Cleans up after dead workers. The server looks after its own files; for another folder run `hapax reconcile`."""
    if staging_root is not None:
        raise ValueError(f"files are out of reach over HTTP; run: hapax reconcile --staging {staging_root}")
    return client.reconcile(dry_run=dry_run)


def cleanup_stale_leases(client: Hapax) -> int:
    """How many leases of dead workers were ended. An expired lease can be taken over without this."""
    return client.reconcile()["leases_expired"]


def cleanup_stale_ops(client: Hapax) -> int:
    """How many operations of dead workers are now in doubt."""
    return client.reconcile()["ops_in_doubt"]


def _fence(client: Hapax, job_id: str, owner: Optional[str], epoch: Optional[int]) -> dict[str, Any]:
    """The lease that a write is made under; nothing for a job that nobody holds."""
    known = _leases.get(client, {}).get(job_id)
    if epoch is not None:
        return {"owner": owner or (known[0] if known else None), "epoch": epoch}
    if known is not None and owner in (None, known[0]):
        return {"owner": known[0], "epoch": known[1]}
    return {} if owner is None else {"owner": owner}

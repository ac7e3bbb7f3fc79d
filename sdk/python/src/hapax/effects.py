"""An effect of a job: what its runner is told, and the errors that stand for what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import EffectFailed, EffectInDoubt, EffectInProgress
from .shapes import Begun

# After a broken connection nobody here knows whether an effect of these classes happened.
MAY_HAVE_HAPPENED = frozenset({"at_most_once", "probe"})


@dataclass(frozen=True)
class OpRun:
    """One run of an operation. `op_key` is the same in every run: send it downstream as the idempotency key."""

    op_key: str
    job_id: str
    kind: str
    tries: int


def in_progress(begun: Begun) -> EffectInProgress:
    """Somebody is at it."""
    message = f"{begun['kind']} of job {begun['job_id']} is being run; come back when that has ended"
    return EffectInProgress("effect_in_progress", message, details=dict(begun), retryable=True)


def in_doubt(begun: Begun) -> EffectInDoubt:
    """It may have happened."""
    message = (
        f"{begun['kind']} of job {begun['job_id']} was begun and may have happened; find out, "
        f"then resolve operation {begun['op_key']} with its result, retry or error"
    )
    details = {name: value for name, value in begun.items() if name != "token"}
    return EffectInDoubt("effect_in_doubt", message, details=details)


def failed(begun: Begun) -> EffectFailed:
    """It failed for good, or waits for somebody."""
    message = f"{begun['kind']} of job {begun['job_id']} {begun['action']}: {begun.get('error') or begun.get('asks')}"
    return EffectFailed("effect_failed", message, details=dict(begun))

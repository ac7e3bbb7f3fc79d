"""hapax: do it once. Idempotency keys, canonical JSON, jobs and effects, for those who call hapax or sit behind it.

Start with `with_idempotency_key` to call something twice safely, `hapax.asgi` or `hapax.django` to be called twice
safely, and `Worker` to run jobs.
"""

from ._async.client import AsyncHapax
from ._async.function import async_idempotent
from ._async.held import AsyncHeldJob, async_run_effect
from ._async.sending import async_post, async_with_idempotency_key
from ._sync.client import Hapax
from ._sync.function import idempotent
from ._sync.held import HeldJob, run_effect
from ._sync.sending import post, with_idempotency_key
from .canonical import PROFILES, CanonicalError, canonical, canonical_json, fingerprint, fingerprint_json
from .effects import OpRun
from .errors import (
    EffectFailed,
    EffectInDoubt,
    EffectInProgress,
    Error,
    GiveUp,
    HapaxError,
    LeaseLost,
    RetryLater,
    StateTransitionDenied,
    Unavailable,
    Unknown,
)
from .key_store import FileKeyStore, KeyStore
from .keys import job_key, op_key, uuid7
from .retry import Retry
from .sending import Conflict, Result
from .worker import AsyncWorker, Worker, job

__version__ = "0.1.0"

__all__ = [
    "PROFILES",
    "AsyncHapax",
    "AsyncHeldJob",
    "AsyncWorker",
    "CanonicalError",
    "Conflict",
    "EffectFailed",
    "EffectInDoubt",
    "EffectInProgress",
    "Error",
    "FileKeyStore",
    "GiveUp",
    "Hapax",
    "HapaxError",
    "HeldJob",
    "KeyStore",
    "LeaseLost",
    "OpRun",
    "Result",
    "Retry",
    "RetryLater",
    "StateTransitionDenied",
    "Unavailable",
    "Unknown",
    "Worker",
    "async_idempotent",
    "async_post",
    "async_run_effect",
    "async_with_idempotency_key",
    "canonical",
    "canonical_json",
    "fingerprint",
    "fingerprint_json",
    "idempotent",
    "job",
    "job_key",
    "op_key",
    "post",
    "run_effect",
    "uuid7",
    "with_idempotency_key",
]

"""The pure keys: a new one per operation (UUIDv7), and the deterministic ones of jobs and operations."""

from __future__ import annotations

import os
import time
from typing import Any, Optional
from uuid import UUID

from .canonical import canonical, fingerprint


def uuid7(now_ms: Optional[int] = None) -> str:
    """A new UUIDv7: the time first, so that keys sort by it, then 74 random bits."""
    stamp = int(time.time() * 1000) if now_ms is None else now_ms
    bits = int.from_bytes(os.urandom(10), "big")
    value = (stamp & (2**48 - 1)) << 80 | 0x7 << 76 | (bits >> 68 & 0xFFF) << 64 | 0b10 << 62 | bits & (2**62 - 1)
    return str(UUID(int=value))


def job_key(work_id: str, artifact_id: str, canonical_url: str, *, kind: str = "download") -> str:
    """The key of a job: the same work, artifact and URL give the same key in every process and language."""
    # A kind called "artifact" must not take the keys of downloads.
    role = {"download": "artifact", "artifact": "kind:artifact"}.get(kind, kind)
    preimage = {
        "v": 1,
        "kind": "JOB",
        "role": role,
        "work_id": work_id,
        "artifact_id": artifact_id,
        "url": canonical_url,
    }
    return fingerprint(preimage, "py-json")


def op_key(op_kind: str, job_or_key: str, /, **context: Any) -> str:
    """The key of an operation: its kind, its job and what it is about, never its attempt or its worker.

    The server makes it of the job's `job_key`, so give that, not `job_id`.

    The context cannot override `v`, `kind` or `job_id`: those are always ours.
    """
    canonical(context)
    return fingerprint({**context, "v": 1, "kind": op_kind, "job_id": job_or_key}, "py-json")

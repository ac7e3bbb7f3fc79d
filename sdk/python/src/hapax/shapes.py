"""The shapes of the server's answers. A member that is not listed may still be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Generic, Optional, TypedDict, TypeVar

T = TypeVar("T")


class StoredResponse(TypedDict, total=False):
    status: int
    headers: dict[str, str]
    body: Any
    body_base64: str
    body_omitted: bool


class ConflictDetails(TypedDict, total=False):
    original_key: str
    current_hash: str
    original_hash: Optional[str]
    diff_summary: list[str]
    original_timestamp: str
    retry_after: int


class _Claim(TypedDict):
    action: str
    id: str
    key: str
    route_pattern: str
    expires_at: Optional[str]
    expired: bool
    lost: bool


class Claim(_Claim, total=False):
    """`action` is process, replay, conflict, in_progress, in_doubt or erased. `token` comes with process only."""

    token: str
    lease_expires_at: str
    response: StoredResponse
    settled_at: str
    conflict: ConflictDetails
    retry_after: int
    lease_seconds_left: int
    reason: str


class KeyEnded(TypedDict):
    id: str
    state: str
    replayed: bool


class KeyRenewed(TypedDict):
    id: str
    token: str
    lease_expires_at: str


class _KeyView(TypedDict):
    id: str
    key: str
    route_pattern: str
    state: str
    method: str
    path: str
    content_hash: str
    created_at: str
    expires_at: str


class KeyView(_KeyView, total=False):
    lease_expires_at: str
    reason: str
    status: int
    settled_at: str
    request: dict[str, Any]
    response: StoredResponse


class KeyDeleted(TypedDict):
    id: str
    deleted: bool


class AuditRow(TypedDict):
    at: str
    action: str
    actor: Optional[str]
    key_id: Optional[str]
    route_pattern: Optional[str]
    details: Any


class Stats(TypedDict):
    total_requests: int
    replayed_requests: int
    conflict_requests: int
    expired_keys: int
    cleanup_operations: int
    avg_lookup_time: float
    avg_storage_time: float
    cache_hit_rate: float
    key_generation_errors: int
    storage_failures: int
    cleanup_failures: int


class Health(TypedDict):
    status: str
    version: str
    store: str
    durability: str
    uptime_s: int
    time: str


class _Receipt(TypedDict):
    receipt_id: str
    intent_id: Optional[str]
    trace_id: Optional[str]
    status: str
    idempotency_key: Optional[str]
    correlation_id: Optional[str]
    plan: Any
    clarification: Any
    details: Any


class Receipt(_Receipt, total=False):
    """`status` is accepted, planned, executed, failed, needs_clarification or rejected."""

    error: dict[str, Any]


class Intent(TypedDict):
    intent_id: str
    receipt_id: str
    source: str
    idempotency_key: str
    received_at: str
    packet: Any
    receipt: Receipt
    artifacts: list[dict[str, Any]]


class Clarification(TypedDict, total=False):
    id: str
    receipt_id: str
    status: str
    asked_at: str
    answer: Any


class _Ingested(TypedDict):
    ok: bool
    snapshotId: str
    idempotent: bool
    current: bool
    latestSnapshotId: str


class Ingested(_Ingested, total=False):
    """`courseId` in the collection courses, `id` in any other."""

    courseId: str
    id: str


class _IngestedBatch(TypedDict):
    ok: bool
    processed: int
    succeeded: int
    failed: int
    results: list[dict[str, Any]]


class IngestedBatch(_IngestedBatch, total=False):
    errors: list[dict[str, Any]]


class Entity(TypedDict, total=False):
    courseId: str
    id: str
    name: Optional[str]
    label: Optional[str]
    currentSnapshotId: str
    snapshots: int
    created_at: str
    updated_at: str
    hash: Optional[str]
    payload: Any


class SnapshotView(TypedDict, total=False):
    courseId: str
    id: str
    snapshotId: str
    name: Optional[str]
    label: Optional[str]
    hash: Optional[str]
    current: bool
    created_at: str
    seen_at: str
    seen: int
    aliases: dict[str, str]
    payload: Any
    observations: list[dict[str, Any]]


Row = Dict[str, Any]


class _Policy(TypedDict):
    policy_id: int
    policy_key: str
    source: str
    content_type: str
    conflict_action: str
    update_fields: Optional[list[str]]
    secondary_match: str
    enabled: bool


class Policy(_Policy, total=False):
    schemas: list[str]


class Import(TypedDict, total=False):
    import_id: str
    status: str
    step: str
    schema: str
    mbox_path: str
    total_messages: int
    normalized_ok: int
    normalize_errors: int
    inserted: int
    updated: int
    skipped: int
    insert_errors: int
    tier1_candidates: int
    tier1_batches: list[dict[str, Any]]
    tier1_enqueued_items: int
    errors: list[dict[str, Any]]
    error: Optional[str]


class Batch(TypedDict, total=False):
    batch_id: str
    status: str
    schema: str
    request_count: int
    counts: dict[str, int]
    items: list[dict[str, Any]]


class _Op(TypedDict):
    op_key: str
    job_id: str
    kind: str
    state: str
    epoch: int
    tries: int
    started_at: str
    finished_at: Optional[str]
    result: Any
    error: Any


class Op(_Op, total=False):
    job_state: str


class Begun(TypedDict, total=False):
    """`action` is execute, replay, in_progress, in_doubt, failed or waiting."""

    action: str
    op_key: str
    job_id: str
    kind: str
    tries: int
    token: str
    result: Any
    error: Any
    asks: Any


class _Job(TypedDict):
    job_id: str
    kind: str
    state: str
    owner: Optional[str]
    lease_until: Optional[str]
    epoch: int
    attempts: int
    work_id: str
    artifact_id: str
    canonical_url: str
    payload: Any
    result: Any
    error: Any
    created_at: str
    updated_at: str


class Job(_Job, total=False):
    failures: int
    max_attempts: int
    available_at: Optional[str]
    ops: list[Op]


class PlannedJob(Job, total=False):
    planned: bool


class Reconciled(TypedDict):
    leases_expired: int
    ops_in_doubt: int
    parts_deleted: int
    healed: int
    dry_run: bool


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list. `next_cursor` is None behind the last one."""

    items: list[T]
    next_cursor: Optional[str]

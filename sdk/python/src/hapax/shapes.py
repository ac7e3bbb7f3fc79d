"""The shapes of the server's answers, as spec/openapi.json has them. A member that is not listed may still be there.

tests/test_openapi.py compares each of them with the document. Those of entries are in `entry_shapes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, Optional, TypedDict, TypeVar

T = TypeVar("T")

ClaimAction = Literal["process", "replay", "conflict", "in_progress", "in_doubt", "erased"]
KeyState = Literal["held", "in_doubt", "settled", "erased"]
AuditAction = Literal[
    "idempotency_replay",
    "idempotency_conflict",
    "idempotency_expired",
    "cleanup_idempotency_keys",
    "key_deleted",
    "key_settled",
    "key_released",
    "key_erased",
    "job_retried",
    "op_resolved",
    "jobs_reconciled",
    "policy_changed",
    "test_mode_changed",
]
ReceiptStatus = Literal["accepted", "needs_clarification", "planned", "executed", "failed", "rejected"]
JobState = Literal[
    "PLANNED",
    "LEASED",
    "HEAD_DONE",
    "RESUME_OK",
    "STREAMING",
    "FINALIZED",
    "INDEXED",
    "DEDUPED",
    "FAILED",
    "SKIPPED_DUPLICATE",
    "DEAD",
]
OpClass = Literal["tx", "keyed", "probe", "replayable", "at_most_once"]
OpState = Literal["running", "done", "retryable", "failed", "in_doubt", "waiting"]


class StoredBody(TypedDict, total=False):
    """A body as it was given. It is omitted where it could not be kept, and withheld where the reader may not see it."""

    body: Any
    body_base64: str
    body_omitted: bool
    body_withheld: bool


class StoredResponse(StoredBody):
    status: int
    headers: dict[str, str]


class _ConflictDetails(TypedDict):
    current_hash: Optional[str]
    original_hash: Optional[str]


class ConflictDetails(_ConflictDetails, total=False):
    differs: list[Literal["body", "path", "query", "method", "content_type", "principal"]]
    original_key: str
    diff_summary: list[str]
    original_timestamp: str
    retry_after: int


class _Claim(TypedDict):
    action: ClaimAction
    id: str
    key: str
    route_pattern: str
    expires_at: Optional[str]
    expired: bool
    lost: bool


class Claim(_Claim, total=False):
    """`token` comes with process only, `response` with replay, `conflict` with conflict, `reason` with in_doubt."""

    token: str
    lease_expires_at: str
    response: StoredResponse
    settled_at: str
    conflict: ConflictDetails
    retry_after: int
    lease_seconds_left: int
    reason: str
    why: str


class KeyEnded(TypedDict):
    id: str
    state: Literal["settled", "released", "in_doubt"]
    replayed: bool


class KeyRenewed(TypedDict):
    """`token` is a new one: it takes the place of the one that was sent."""

    id: str
    token: str
    lease_expires_at: str


class _KeyView(TypedDict):
    id: str
    key: str
    route_pattern: str
    state: KeyState
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


class KeyRequest(StoredBody):
    method: str
    path: str
    content_type: str
    content_hash: str


class _KeyWhole(KeyView):
    request: KeyRequest


class KeyWhole(_KeyWhole, total=False):
    response: StoredResponse


class KeyDeleted(TypedDict):
    id: str
    deleted: bool


class AuditRow(TypedDict):
    at: str
    action: AuditAction
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
    durability: Literal["full", "relaxed", "best_effort", "process"]
    uptime_s: int
    time: str
    leads: list[str]


class Version(TypedDict):
    name: str
    version: str


class ReceiptAction(TypedDict):
    step: int
    action: str
    path: str
    payload: dict[str, Any]


class ReceiptPlan(TypedDict):
    actions: list[ReceiptAction]


class ReceiptErrorDetails(TypedDict):
    status_code: Optional[int]


class ReceiptError(TypedDict):
    code: str
    message: str
    details: ReceiptErrorDetails


class _Receipt(TypedDict):
    receipt_id: str
    intent_id: Optional[str]
    trace_id: Optional[str]
    status: ReceiptStatus
    idempotency_key: str
    correlation_id: Optional[str]
    plan: ReceiptPlan
    clarification: Optional[dict[str, Any]]
    details: dict[str, Any]


class Receipt(_Receipt, total=False):
    error: ReceiptError


class ListedReceipt(Receipt):
    natural_language: Optional[str]
    intent_type: Optional[str]


class Choice(TypedDict):
    id: str
    label: str
    value: Any


class _Clarification(TypedDict):
    id: str
    receipt_id: str
    status: str
    asked_at: str


class Clarification(_Clarification, total=False):
    field: str
    natural_language: str
    question: str
    reason: str
    choices: list[Choice]
    answer: Any


class EntityId(TypedDict, total=False):
    """`courseId` in the collection courses, `id` in any other."""

    courseId: str
    id: str


class EntityLabel(TypedDict, total=False):
    """`name` in the collection courses, `label` in any other."""

    name: Optional[str]
    label: Optional[str]


class Ingested(EntityId):
    ok: bool
    snapshotId: str
    idempotent: bool
    current: bool
    latestSnapshotId: str


class IngestedItem(EntityId):
    index: int
    ok: bool
    snapshotId: str
    idempotent: bool


class RefusedItem(TypedDict):
    index: int
    error: str
    details: dict[str, Any]


class _IngestedBatch(TypedDict):
    ok: bool
    processed: int
    succeeded: int
    failed: int
    results: list[IngestedItem]


class IngestedBatch(_IngestedBatch, total=False):
    errors: list[RefusedItem]


class Entity(EntityId, EntityLabel):
    currentSnapshotId: str
    snapshots: int
    created_at: str
    updated_at: str


class EntityWhole(Entity):
    hash: Optional[str]
    payload: Any


class Snapshot(EntityId, EntityLabel):
    snapshotId: str
    hash: Optional[str]
    current: bool
    created_at: str
    seen_at: str
    seen: int


class Observation(TypedDict):
    at: str
    by: Optional[str]
    key_match: Optional[str]


class SnapshotWhole(Snapshot):
    aliases: dict[str, Any]
    observations: list[Observation]
    payload: Any


# `class` is a word of Python, so it cannot be written as a member of a class.
_OpClass = TypedDict("_OpClass", {"class": OpClass})


class _Op(_OpClass):
    op_key: str
    job_id: str
    kind: str
    state: OpState
    epoch: int
    tries: int
    started_at: str
    finished_at: Optional[str]
    result: Any


class Op(_Op, total=False):
    error: Any


class EndedOp(Op):
    job_state: JobState


class _Begun(TypedDict):
    action: Literal["execute", "replay", "in_progress", "in_doubt", "failed", "waiting"]
    op_key: str
    job_id: str
    kind: str
    tries: int


class Begun(_Begun, total=False):
    token: str
    result: Any
    error: Any
    asks: Any


class _Job(TypedDict):
    job_id: str
    job_key: str
    kind: str
    state: JobState
    place: str
    owner: Optional[str]
    lease_until: Optional[str]
    epoch: int
    attempts: int
    failures: int
    max_attempts: int
    backoff_ms: Optional[int]
    available_at: Optional[str]
    work_id: str
    artifact_id: str
    canonical_url: str
    payload: Any
    result: Any
    created_at: str
    updated_at: str


class Job(_Job, total=False):
    error: Any


class JobWhole(Job):
    ops: list[Op]


class PlannedJob(Job):
    planned: bool


class PlannedShort(TypedDict):
    job_id: str
    job_key: str
    planned: bool
    state: JobState


class SettledJob(TypedDict, total=False):
    """`ok` and how the job is now, or `error`, which is what stands under that name in a refusal."""

    ok: bool
    job_id: str
    job_key: str
    state: JobState
    epoch: int
    error: dict[str, Any]


class JobCount(TypedDict):
    kind: str
    state: JobState
    count: int
    held: int


class JobCounts(TypedDict):
    total: int
    held: int
    ops_in_doubt: int
    states: dict[str, int]
    items: list[JobCount]


class Reconciled(TypedDict):
    leases_expired: int
    ops_in_doubt: int
    parts_deleted: int
    orphans: int
    healed: int
    dry_run: bool


class Intent(TypedDict):
    intent_id: str
    receipt_id: str
    source: str
    idempotency_key: str
    received_at: str
    packet: Any
    receipt: Receipt
    artifacts: list[Op]


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list. `next_cursor` is None behind the last one."""

    items: list[T]
    next_cursor: Optional[str]

"""The shapes of entries, their policies, imports and enrichment, as spec/openapi.json has them."""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict

EntrySchema = Literal["pkm", "pkm_test"]
BatchState = Literal["queued", "submitted", "collecting", "completed", "failed"]


class _Columns(TypedDict, total=False):
    source: Optional[str]
    intent: Optional[str]
    content_type: Optional[str]
    title: Optional[str]
    author: Optional[str]
    capture_text: Optional[str]
    extracted_text: Optional[str]
    clean_text: Optional[str]
    url: Optional[str]
    url_canonical: Optional[str]
    retrieval_excerpt: Optional[str]
    retrieval_version: Optional[str]
    clean_word_count: Optional[int]
    clean_char_count: Optional[int]
    extracted_char_count: Optional[int]
    link_count: Optional[int]
    link_ratio: Optional[float]
    boilerplate_heavy: Optional[bool]
    low_signal: Optional[bool]
    quality_score: Optional[float]
    topic_primary: Optional[str]
    topic_primary_confidence: Optional[float]
    topic_secondary: Optional[str]
    topic_secondary_confidence: Optional[float]
    keywords: Optional[list[str]]
    gist: Optional[str]
    flags: Optional[dict[str, Any]]
    enrichment_status: Optional[str]
    enrichment_model: Optional[str]
    prompt_version: Optional[str]
    enriched_hash: Optional[str]
    metadata: Optional[dict[str, Any]]
    idempotency_policy_key: Optional[str]
    idempotency_key_primary: Optional[str]
    idempotency_key_secondary: Optional[str]
    created_at: Optional[str]


class NormalizedEntry(_Columns, total=False):
    """Ready for `insert`."""

    retrieval_update_skipped: bool


class EntryRow(_Columns, total=False):
    """An entry, as far as the columns were asked for."""

    entry_id: Optional[int]
    id: Optional[str]
    revision: Optional[int]
    updated_at: Optional[str]


class KeyClash(TypedDict, total=False):
    """Another entry has this key already."""

    entry_id: int
    field: str
    key: str


class RowError(TypedDict):
    code: str
    message: str


class WrittenRow(EntryRow, total=False):
    """What was done with an entry. The members that begin with `_batch` come with many at once."""

    action: Literal["inserted", "updated", "skipped"]
    matched_on: Literal["primary", "secondary"]
    conflicts: list[KeyClash]
    ignored: list[str]
    error: RowError
    _batch_index: int
    _batch_ok: bool


class Policy(TypedDict):
    policy_id: int
    policy_key: str
    source: str
    content_type: str
    conflict_action: Literal["skip", "update"]
    update_fields: Optional[list[str]]
    secondary_match: Literal["always", "only_if_primary_missing"]
    enabled: bool


class ChangedPolicy(Policy):
    schemas: list[EntrySchema]


class ImportFault(TypedDict):
    phase: str
    index: int
    message: str


class ImportBatch(TypedDict):
    batch_id: str
    schema: EntrySchema
    status: str
    request_count: int


class ImportProgress(TypedDict):
    offset: int
    bytes: Optional[int]


class _Import(TypedDict):
    import_id: str
    status: str
    step: str
    schema: EntrySchema
    mbox_path: str
    progress: ImportProgress
    total_messages: int
    normalized_ok: int
    normalize_errors: int
    inserted: int
    updated: int
    skipped: int
    insert_errors: int
    tier1_candidates: int
    tier1_batches: list[ImportBatch]
    tier1_enqueued_items: int
    errors: list[ImportFault]
    created_at: str
    updated_at: str


class Import(_Import, total=False):
    error: str


class _Enriched(TypedDict):
    topic_primary: str
    topic_primary_confidence: float
    topic_secondary: Optional[str]
    topic_secondary_confidence: Optional[float]
    keywords: list[str]
    gist: str
    flags: dict[str, Any]
    quality_score: float
    retrieval_excerpt: str
    retrieval_version: str
    clean_word_count: int
    clean_char_count: int
    extracted_char_count: Optional[int]
    link_count: int
    link_ratio: float
    boilerplate_heavy: bool
    low_signal: bool
    model: str
    prompt_mode: str
    prompt_version: str


class Enriched(_Enriched, total=False):
    topic_said: str


class QueuedBatch(TypedDict):
    batch_id: str
    schema: EntrySchema
    status: BatchState
    request_count: int


class _BatchItem(TypedDict):
    item_id: int
    entry_id: Optional[int]
    content_hash: str
    status: Literal["queued", "waiting", "answered", "completed", "stale", "parse_error", "failed"]
    result: Optional[dict[str, Any]]
    raw: Optional[str]
    updated_at: str


class BatchItem(_BatchItem, total=False):
    error: str


class _Batch(QueuedBatch):
    attempt: int
    failures: int
    counts: dict[str, int]
    completion_window: str
    metadata: dict[str, Any]
    model: Optional[str]
    import_id: Optional[str]
    provider_batch_id: Optional[str]
    provider_status: Optional[str]
    next_at: Optional[str]
    created_at: str
    updated_at: str


class Batch(_Batch, total=False):
    """`items`, and `next_cursor` where there are more, come with `include_items`; `error` is there if there is one."""

    error: str
    items: list[BatchItem]
    next_cursor: str


class SettingsLimits(TypedDict):
    batch_body_bytes_max: int
    batch_items_max: int
    body_bytes_max: int
    q_chars_max: int
    q_words_max: int
    read_days_max: int
    read_limit_max: int


class SettingsRetrieval(TypedDict):
    version: str
    excerpt_chars_max: int
    searched_chars_max: int


class SettingsConfigured(TypedDict):
    gateway: bool
    litellm: bool
    telegram_secret: bool
    email_import_root: bool


class Settings(TypedDict):
    version: str
    schemas: list[EntrySchema]
    columns: list[str]
    limits: SettingsLimits
    retrieval: SettingsRetrieval
    tracking_parameters: list[str]
    configured: SettingsConfigured

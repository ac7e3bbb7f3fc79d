# Made by tools/make_sync from _async; change it there.
"""Entries: normalised, inserted once per key, changed, read; their policies, imports and enrichment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, List, Optional, cast

from ..entry_shapes import (
    Batch,
    ChangedPolicy,
    Enriched,
    EntryRow,
    Import,
    NormalizedEntry,
    Policy,
    QueuedBatch,
    Settings,
    WrittenRow,
)
from ..keys import uuid7
from ..transport import Call, given, path
from .transport import Transport

_KEYS = ("idempotency_policy_key", "idempotency_key_primary")


def _carries_its_key(item: Mapping[str, Any]) -> bool:
    return all(item.get(name) for name in _KEYS)


class Entries:
    """Entries. Not repeated after a lost answer: an insert of an entry without keys, and `toggle_test_mode`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _post(self, where: str, body: Any, *, repeatable: bool = True) -> Any:
        return self._transport.json(Call("POST", where, body, repeatable=repeatable))

    def normalize_telegram(self, message: Mapping[str, Any]) -> NormalizedEntry:
        """A Telegram message as a flat entry with its keys, ready for `insert`."""
        return cast(NormalizedEntry, self._post("/normalize/telegram", dict(message)))

    def normalize_email(self, mail: Mapping[str, Any]) -> NormalizedEntry:
        """A mail as a flat entry with its keys."""
        return cast(NormalizedEntry, self._post("/normalize/email", dict(mail)))

    def normalize_webpage(self, page: Mapping[str, Any]) -> NormalizedEntry:
        """A web page's text as a flat entry with its keys."""
        return cast(NormalizedEntry, self._post("/normalize/webpage", dict(page)))

    def insert(self, entry: Mapping[str, Any], *, returning: Optional[Sequence[str]] = None) -> WrittenRow:
        """Inserts an entry, or does what the policy of its keys says; `action` tells which."""
        body = {**entry, **given(returning=list(returning) if returning else None)}
        rows = self._post("/db/insert", body, repeatable=_carries_its_key(entry))
        return cast(WrittenRow, rows[0])

    def insert_batch(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        continue_on_error: bool = True,
        returning: Optional[Sequence[str]] = None,
    ) -> List[WrittenRow]:
        """Inserts many. Each row says `_batch_ok`; with continue_on_error=False one fault leaves nothing."""
        body = given(
            items=[dict(item) for item in items],
            continue_on_error=continue_on_error,
            returning=list(returning) if returning else None,
        )
        are_repeatable = all(_carries_its_key(item) for item in items)
        return cast(List[WrittenRow], self._post("/db/insert", body, repeatable=are_repeatable))

    def update(self, change: Mapping[str, Any], *, returning: Optional[Sequence[str]] = None) -> List[WrittenRow]:
        """Changes the entry with this `id` or `entry_id`; no row where there is none."""
        body = {**change, **given(returning=list(returning) if returning else None)}
        return cast(List[WrittenRow], self._post("/db/update", body))

    def read_last(
        self,
        *,
        limit: Optional[int] = None,
        days: Optional[int] = None,
        q: Optional[str] = None,
        returning: Optional[Sequence[str]] = None,
    ) -> List[EntryRow]:
        """The newest entries."""
        return self._read("last", q, limit, days, returning)

    def read_find(
        self,
        q: str,
        *,
        limit: Optional[int] = None,
        days: Optional[int] = None,
        returning: Optional[Sequence[str]] = None,
    ) -> List[EntryRow]:
        """The entries that have these words, those that match best first."""
        return self._read("find", q, limit, days, returning)

    def read_continue(
        self,
        q: str,
        *,
        limit: Optional[int] = None,
        days: Optional[int] = None,
        returning: Optional[Sequence[str]] = None,
    ) -> List[EntryRow]:
        """The entries that have these words, the newest first."""
        return self._read("continue", q, limit, days, returning)

    def _read(
        self,
        how: str,
        q: Optional[str],
        limit: Optional[int],
        days: Optional[int],
        returning: Optional[Sequence[str]],
    ) -> List[EntryRow]:
        body = given(q=q, limit=limit, days=days, returning=list(returning) if returning else None)
        return cast(List[EntryRow], self._post(f"/db/read/{how}", body))

    def read_pull(self, entry_id: int) -> EntryRow:
        """One entry with all its columns."""
        return cast(EntryRow, self._post("/db/read/pull", {"entry_id": entry_id}))

    def test_mode(self) -> bool:
        """Whether writes go to the test schema."""
        return _is_test_mode(self._transport.json(Call("GET", "/db/test-mode")))

    def set_test_mode(self, is_test_mode: bool) -> bool:
        """Turns the test mode on or off."""
        return _is_test_mode(self._post("/db/test-mode/set", {"is_test_mode": is_test_mode}))

    def toggle_test_mode(self) -> bool:
        """Turns the test mode into the other."""
        return _is_test_mode(self._post("/db/test-mode/toggle", None, repeatable=False))

    def policies(self, *, schema: Optional[str] = None) -> List[Policy]:
        """What writes do where a key is there already."""
        told = self._transport.json(Call("GET", "/v1/policies", query=given(schema=schema)))
        return cast(List[Policy], told["items"])

    def set_policy(
        self, policy_key: str, change: Mapping[str, Any], *, schema: Optional[str] = None
    ) -> ChangedPolicy:
        """Changes a policy. What `change` does not name stays; update_fields None means all columns."""
        call = Call("PUT", path("v1", "policies", policy_key), dict(change), query=given(schema=schema))
        return cast(ChangedPolicy, self._transport.json(call))

    def import_mbox(
        self,
        mbox_path: str,
        *,
        wait: bool = True,
        batch_size: Optional[int] = None,
        insert_chunk_size: Optional[int] = None,
        completion_window: Optional[str] = None,
        thread_policy: Optional[str] = None,
    ) -> Import:
        """Imports a mailbox beneath the server's EMAIL_IMPORT_ROOT. The same file again joins the import that runs."""
        body = given(
            mbox_path=mbox_path,
            batch_size=batch_size,
            insert_chunk_size=insert_chunk_size,
            completion_window=completion_window,
            thread_policy=thread_policy,
        )
        if not wait:
            body["async"] = True
        return cast(Import, self._post("/import/email/mbox", body))

    def import_status(self, import_id: str) -> Import:
        """An import as it stands now."""
        return cast(Import, self._transport.json(Call("GET", path("import", import_id))))

    def enrich_t1(
        self,
        clean_text: str,
        *,
        title: Optional[str] = None,
        author: Optional[str] = None,
        content_type: Optional[str] = None,
        force: Optional[bool] = None,
    ) -> Enriched:
        """Topics, keywords and gist of a text. The same text again answers what is recorded, and pays nothing, unless
        `force` asks for a new answer."""
        body = given(clean_text=clean_text, title=title, author=author, content_type=content_type, force=force)
        return cast(Enriched, self._post("/enrich/t1", body))

    def enrich_batch(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        completion_window: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        force: Optional[bool] = None,
        key: Optional[str] = None,
    ) -> QueuedBatch:
        """Puts texts into a batch. A batch has no key of its own, so it is sent under one."""
        body = given(
            items=[dict(item) for item in items],
            completion_window=completion_window,
            metadata=dict(metadata) if metadata else None,
            force=force,
        )
        call = Call("POST", "/enrich/t1/batch", body, headers={"Idempotency-Key": key or uuid7()})
        return cast(QueuedBatch, self._transport.json(call))

    def enrich_batches(
        self, *, schema: Optional[str] = None, include_terminal: bool = False, limit: Optional[int] = None
    ) -> Iterator[Batch]:
        """How the batches stand, those that have ended with `include_terminal` only."""
        query = given(schema=schema, include_terminal=include_terminal, limit=limit)
        return self._transport.items(Call("GET", "/status/t1/batch", query=query))

    def enrich_batch_status(self, batch_id: str, *, include_items: bool = False) -> Batch:
        """How one batch stands."""
        call = Call("GET", path("status", "t1", "batch", batch_id), query={"include_items": include_items})
        return cast(Batch, self._transport.json(call))

    def config(self) -> Settings:
        """What a client may know of how the server is set up."""
        return cast(Settings, self._transport.json(Call("GET", "/config")))


def _is_test_mode(told: Any) -> bool:
    return bool(told[0]["is_test_mode"])

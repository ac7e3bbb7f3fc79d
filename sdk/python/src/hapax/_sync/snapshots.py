# Made by tools/make_sync from _async; change it there.
"""Snapshots: one per payload, under the name of a collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, cast

from ..shapes import Entity, EntityWhole, Ingested, IngestedBatch, Snapshot, SnapshotWhole
from ..transport import Call, given, path
from .transport import Transport

COURSES = "courses"


class Snapshots:
    """Snapshots. Every call may be repeated: a payload is named by its hash."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ingest(
        self, payload: Mapping[str, Any], *, collection: str = COURSES, key: Optional[str] = None
    ) -> Ingested:
        """Keeps a payload, or answers the snapshot that it is. The server looks at `key` and trusts it for nothing."""
        headers = {"Idempotency-Key": key} if key else {}
        call = Call("POST", path("v1", collection, "ingest"), dict(payload), headers=headers)
        return cast(Ingested, self._transport.json(call))

    def ingest_batch(self, payloads: Sequence[Mapping[str, Any]], *, collection: str = COURSES) -> IngestedBatch:
        """Keeps up to 1000 payloads, each by itself."""
        body = [dict(payload) for payload in payloads]
        return cast(
            IngestedBatch, self._transport.json(Call("POST", path("v1", collection, "ingest", "batch"), body))
        )

    def list(
        self,
        *,
        collection: str = COURSES,
        search: Optional[str] = None,
        limit: Optional[int] = None,
        offset: int = 0,
    ) -> Iterator[Entity]:
        """All entities from `offset` on."""
        while True:
            query = given(search=search, limit=limit, offset=offset)
            page = self._transport.page(Call("GET", path("v1", collection), query=query))
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            offset = int(page.next_cursor)

    def get(self, entity_id: str, *, collection: str = COURSES) -> EntityWhole:
        """An entity with its current payload."""
        return cast(EntityWhole, self._transport.json(Call("GET", path("v1", collection, entity_id))))

    def history(
        self, entity_id: str, *, collection: str = COURSES, limit: Optional[int] = None
    ) -> Iterator[Snapshot]:
        """All snapshots of an entity, newest first."""
        call = Call("GET", path("v1", collection, entity_id, "snapshots"), query=given(limit=limit))
        return self._transport.items(call)

    def snapshot(self, entity_id: str, snapshot_id: str, *, collection: str = COURSES) -> SnapshotWhole:
        """One snapshot, with its payload, and who sent it when."""
        call = Call("GET", path("v1", collection, entity_id, "snapshots", snapshot_id))
        return cast(SnapshotWhole, self._transport.json(call))

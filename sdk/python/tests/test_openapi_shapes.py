"""Each shape of the SDK is what spec/openapi.json says that the server answers."""

from __future__ import annotations

from typing import Any, is_typeddict

import pytest

from hapax import entry_shapes, shapes

from .openapi import SCHEMAS, form_of_schema, members_of, members_of_type

# The shapes that have another name in the document.
STANDS_FOR = {
    "Batch": "EnrichmentBatch",
    "BatchItem": "EnrichmentItem",
    "Begun": "BegunOp",
    "Choice": "ClarificationChoice",
    "Claim": "Claiming",
    "EntityWhole": "EntityWithPayload",
    "JobWhole": "JobWithOps",
    "KeyDeleted": "DeletedKey",
    "KeyEnded": "Completed",
    "KeyRenewed": "Renewed",
    "KeyView": "Key",
    "KeyWhole": "KeyRecord",
    "SnapshotWhole": "SnapshotWithPayload",
    "StoredBody": "RecordedBody",
    "StoredResponse": "RecordedAnswer",
}
# The shapes that the document writes out where they stand: the schema that they stand in, and where.
STANDS_IN = {"KeyClash": ("WrittenRow", "conflicts"), "RowError": ("WrittenRow", "error")}

SHAPES: dict[str, Any] = {
    name: found
    for module in (shapes, entry_shapes)
    for name, found in vars(module).items()
    if is_typeddict(found) and not name.startswith("_")
}


def schema_for(name: str) -> dict[str, Any]:
    if name in STANDS_IN:
        whole, member = STANDS_IN[name]
        inner: dict[str, Any] = SCHEMAS[whole]["properties"][member]
        items: dict[str, Any] = inner.get("items", inner)
        return items
    stands_for = STANDS_FOR.get(name, name)
    assert stands_for in SCHEMAS, f"the document has no {stands_for}; say in STANDS_FOR what {name} is"
    found: dict[str, Any] = SCHEMAS[stands_for]
    return found


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_shape_is_what_the_document_says(name: str) -> None:
    ours, theirs = members_of_type(SHAPES[name]), members_of(schema_for(name))
    assert sorted(ours) == sorted(theirs)
    for member, told in theirs.items():
        assert ours[member] == told, f"{name}.{member}"


def test_the_tables_name_shapes_that_there_are() -> None:
    assert set(STANDS_FOR) | set(STANDS_IN) <= set(SHAPES)
    assert not set(STANDS_FOR) & set(SCHEMAS), "a shape with a name of the document must be that one"


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("KeyRenewed", {"properties": {"id": {"type": "string"}}}),
        ("KeyRenewed", {"required": ["id"]}),
        ("KeyEnded", {"properties": {**SCHEMAS["Completed"]["properties"], "state": {"enum": ["settled"]}}}),
        ("Version", {"properties": {**SCHEMAS["Version"]["properties"], "version": {"type": ["string", "null"]}}}),
    ],
)
def test_a_difference_would_be_seen(name: str, changed: dict[str, Any]) -> None:
    """A member less, one that may be missing, a word less, and a null."""
    assert members_of_type(SHAPES[name]) == members_of(schema_for(name))
    assert members_of_type(SHAPES[name]) != members_of({**schema_for(name), **changed})


def test_types_are_told_apart() -> None:
    schemas: list[dict[str, Any]] = [
        {"type": "integer"},
        {"type": "number"},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array"},
        {},
    ]
    assert len({form_of_schema(schema) for schema in schemas}) == len(schemas)

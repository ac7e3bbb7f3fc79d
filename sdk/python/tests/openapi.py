"""The document of the server's API, and a form in which its schemas and our types can be compared."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, Optional, Union, get_args, get_origin, get_type_hints, is_typeddict

from .server import REPOSITORY

DOCUMENT: dict[str, Any] = json.loads((REPOSITORY / "spec" / "openapi.json").read_text(encoding="utf-8"))
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
VERBS = frozenset({"get", "put", "post", "delete", "patch"})

# What a JSON value may be: a set of names of JSON types, words in quotes, and tuples for what holds other values.
Form = frozenset[Any]
ANY: Form = frozenset({"any"})
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def operations() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each operation, by its id."""
    return {
        operation["operationId"]: (verb.upper(), path, operation)
        for path, item in DOCUMENT["paths"].items()
        for verb, operation in item.items()
        if verb in VERBS
    }


def path_pattern(path: str) -> re.Pattern[str]:
    """What the concrete paths of a path in the document look like."""
    return re.compile(
        "".join("[^/]+" if part.startswith("{") else re.escape(part) for part in re.split(r"({\w+})", path))
    )


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rsplit("/", 1)[-1]]
    return schema


def members_of(schema: dict[str, Any]) -> dict[str, tuple[bool, Form]]:
    """Whether each member of an object must be there, and what it may be."""
    schema = resolved(schema)
    found: dict[str, tuple[bool, Form]] = {}
    for part in schema.get("allOf", []):
        found.update(members_of(part))
    alternatives = [members_of(part) for part in schema.get("oneOf", [])]
    for name in {name for alternative in alternatives for name in alternative}:
        of_name = [alternative.get(name) for alternative in alternatives]
        is_required = all(one is not None and one[0] for one in of_name)
        found[name] = (is_required, frozenset().union(*(one[1] for one in of_name if one is not None)))
    required = schema.get("required", [])
    for name, member in schema.get("properties", {}).items():
        found[name] = (name in required, form_of_schema(member))
    return found


def _object(members: dict[str, tuple[bool, Form]]) -> Form:
    return frozenset({("object", frozenset((name, *member) for name, member in members.items()))})


def form_of_schema(schema: Union[dict[str, Any], bool]) -> Form:
    """What a value of this schema may be."""
    if schema is True:
        return ANY
    assert isinstance(schema, dict)
    schema = resolved(schema)
    if "enum" in schema:
        return frozenset(f"'{word}'" for word in schema["enum"])
    if "properties" in schema or "allOf" in schema:
        return _object(members_of(schema))
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return frozenset().union(*(form_of_schema(part) for part in schema[choice]))
    kinds = schema.get("type")
    if kinds is None:
        return ANY
    return frozenset(_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _kind(kind: str, schema: dict[str, Any]) -> Any:
    if kind == "array":
        return ("array", form_of_schema(schema.get("items", {})))
    values = form_of_schema(schema.get("additionalProperties", True)) if kind == "object" else ANY
    return kind if values == ANY else ("map", values)


def form_of_type(hint: Any) -> Form:
    """What a value of this type may be."""
    if hint is Any:
        return ANY
    if hint in _PLAIN:
        return frozenset({_PLAIN[hint]})
    if is_typeddict(hint):
        return _object(members_of_type(hint))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return frozenset(f"'{word}'" for word in arguments)
    if origin is Union:
        return frozenset().union(*(form_of_type(part) for part in arguments))
    if origin is list:
        return frozenset({("array", form_of_type(arguments[0]))})
    assert origin is dict, f"{hint} has no form in JSON"
    values = form_of_type(arguments[1])
    return frozenset({"object" if values == ANY else ("map", values)})


def members_of_type(shape: Any) -> dict[str, tuple[bool, Form]]:
    """Whether each member of a TypedDict must be there, and what it may be."""
    return {name: (name in shape.__required_keys__, form_of_type(hint)) for name, hint in get_type_hints(shape).items()}


def answer_schema(operation: dict[str, Any]) -> Optional[dict[str, Any]]:
    """The schema of an operation's good answer."""
    found = [told["content"] for status, told in operation["responses"].items() if status.startswith("2")]
    schemas = [content["application/json"]["schema"] for content in found if "application/json" in content]
    assert all(schema == schemas[0] for schema in schemas)
    return schemas[0] if schemas else None

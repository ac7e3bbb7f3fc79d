"""The verify-only profiles: what older snippets made of a JSON text, so that their hashes can still be checked.

Not for new data: `py-json` and `js-sorted` disagree with each other, and `thorbis16` loses the order of arrays.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, Callable, Optional, Union

from ._fault import Fault, fault_of, utf16
from ._number import ecmascript

_DROPPED = {"created_at", "updated_at", "timestamp", "_metadata", "request_id", "trace_id", "session_id"}
_INDEX_MAX = 2**32 - 2


def canonical(text: str, profile: str) -> bytes:
    """The bytes that the profile's snippet makes of the text. Raises Fault where it makes none."""
    if profile in ("py-json", "py-json-utf8"):
        return _python(text, is_ascii=profile == "py-json")
    value = _parsed(text, "javascript", parse_int=float)
    if profile == "thorbis16":
        return _written(_rebuilt(value).value, encode_basestring).encode("utf-8")
    return _written(_in_order(value), _raw_key).encode("utf-8")


def _parsed(text: str, dialect: str, parse_int: Callable[[str], Any]) -> Any:
    fault = fault_of(text, dialect)
    if fault:
        raise fault
    return json.loads(text, parse_int=parse_int)


def _python(text: str, *, is_ascii: bool) -> bytes:
    value = _parsed(text, "python", parse_int=int)
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=is_ascii)
    try:
        return written.encode("utf-8")
    except UnicodeEncodeError:
        raise _lone() from None


def _lone() -> Fault:
    return Fault("lone_surrogate", "a surrogate without its other half", 0)


def _has_lone(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _text(text: str) -> str:
    """A string as `JSON.stringify` writes it: lone surrogates escaped."""
    written = encode_basestring(text)
    if not _has_lone(written):
        return written
    return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in written)


def _raw_key(name: str) -> str:
    if _has_lone(name):
        raise _lone()
    if encode_basestring(name) != f'"{name}"':
        raise Fault("key_needs_escape", "a key that js-sorted would write unescaped", 0)
    return f'"{name}"'


def _written(value: Any, key: Callable[[str], str]) -> str:
    """The members in the order in which they are."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return "null" if value - value != 0 else ecmascript(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return "[" + ",".join(_written(element, key) for element in value) + "]"
    names = _text if key is encode_basestring else key
    return "{" + ",".join(f"{names(name)}:{_written(member, key)}" for name, member in value.items()) + "}"


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_order(element) for element in value]
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value, key=utf16)}
    return value


@dataclass(frozen=True)
class _Rebuilt:
    """A value after the snippet's normalisation, and what `String()` makes of it.

    `text` is None where that throws, or would depend on an array that became a prototype.
    """

    value: Any
    text: Optional[str]
    is_null: bool = False


def _rebuilt(value: Any) -> _Rebuilt:
    if isinstance(value, list):
        return _array([_rebuilt(element) for element in value])
    if isinstance(value, dict):
        return _object(value)
    if value is None:
        return _Rebuilt(None, "null", is_null=True)
    if isinstance(value, bool):
        return _Rebuilt(value, "true" if value else "false")
    if isinstance(value, float):
        return _Rebuilt(value, ecmascript(value))
    return _Rebuilt(value, value)


def _array(elements: list[_Rebuilt]) -> _Rebuilt:
    if len(elements) > 1:
        if any(element.text is None for element in elements):
            raise Fault("not_sortable", "an object that thorbis16 cannot sort", 0)
        elements = sorted(elements, key=lambda element: utf16(element.text or ""))
    texts = ["" if element.is_null else element.text for element in elements]
    joined: Optional[str] = ",".join(text or "" for text in texts)
    if any(text is None for text in texts):
        joined = None
    return _Rebuilt([element.value for element in elements], joined)


def _object(members: dict[str, Any]) -> _Rebuilt:
    text: Optional[str] = "[object Object]"
    rebuilt: dict[str, Any] = {}
    for name in sorted(members, key=utf16):
        if name in _DROPPED:
            continue
        member = _rebuilt(members[name])
        if name == "__proto__":
            # Assigning to it sets the prototype, or does nothing for a primitive value.
            is_odd_object = isinstance(member.value, dict) and member.text is None
            if member.value is None or isinstance(member.value, list) or is_odd_object:
                text = None
            continue
        if name == "toString":
            text = None
        rebuilt[name] = member.value
    # ECMAScript lists array indices first and by number.
    ordered = sorted(rebuilt, key=_index)
    return _Rebuilt({name: rebuilt[name] for name in ordered}, text)


def _index(name: str) -> Union[int, float]:
    is_index = name == "0" or (name[:1] != "0" and len(name) <= 10)
    if name and name.isascii() and name.isdigit() and is_index and int(name) <= _INDEX_MAX:
        return int(name)
    return float("inf")

"""Canonical JSON and its hash: the same bytes for every spelling of the same document.

`hcj-1` is RFC 8785 with one exception: an integer that no double equals keeps its digits, so two different
payloads never look equal. The other profiles only verify hashes that older snippets made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, Union

from . import _profiles
from ._fault import DEPTH_MAX, Fault, fault_of, utf16
from ._number import ecmascript, hcj_integer

PROFILES = ("hcj-1", "py-json", "py-json-utf8", "js-sorted", "thorbis16")

_INTEGER_CHARS_MAX = 310


class CanonicalError(ValueError):
    """A value or a text that has no canonical form.

    `reason` is one of the server's words (duplicate_key, lone_surrogate, number_out_of_range, too_deep,
    invalid_utf8, syntax; key_needs_escape and not_sortable for old profiles), or `not_json` for a Python value
    that JSON does not have. `offset` is the byte where a text was refused.
    """

    def __init__(self, reason: str, message: str, offset: Union[int, None] = None) -> None:
        self.reason = reason
        self.offset = offset
        super().__init__(message if offset is None else f"{message} at byte {offset}")


def canonical(value: Any, profile: str = "hcj-1") -> bytes:
    """The canonical bytes of a value: None, bool, int, float, str, list, tuple, or a mapping with text keys."""
    _check_profile(profile)
    if profile != "hcj-1":
        return canonical_json(_plain_json(value), profile)
    parts: list[str] = []
    _write(value, parts, [])
    try:
        return "".join(parts).encode("utf-8")
    except UnicodeEncodeError as error:
        raise CanonicalError("lone_surrogate", "a surrogate without its other half") from error


def fingerprint(value: Any, profile: str = "hcj-1") -> str:
    """The lower-case hex SHA-256 of the canonical bytes; for `thorbis16` its first 16 digits."""
    return _digest(canonical(value, profile), profile)


def canonical_json(text: Union[str, bytes], profile: str = "hcj-1") -> bytes:
    """The canonical bytes of a JSON text, by the server's rules for input."""
    _check_profile(profile)
    text = _decoded(text)
    if profile == "hcj-1":
        return _canonical_text(text)
    try:
        return _profiles.canonical(text, profile)
    except Fault as fault:
        raise _refusal(fault, text) from None


def fingerprint_json(text: Union[str, bytes], profile: str = "hcj-1") -> str:
    """The hash of a JSON text: what the server and `hapax key` say."""
    return _digest(canonical_json(text, profile), profile)


def _digest(data: bytes, profile: str) -> str:
    digest = hashlib.sha256(data).hexdigest()
    return digest[:16] if profile == "thorbis16" else digest


def _check_profile(profile: str) -> None:
    if profile not in PROFILES:
        raise ValueError(f"unknown profile {profile!r}; use one of {', '.join(PROFILES)}")


def _decoded(text: Union[str, bytes]) -> str:
    if isinstance(text, str):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            # Text that came from somewhere else than bytes; the server could not even be sent it.
            raise CanonicalError("invalid_utf8", "a lone surrogate, which is not UTF-8") from error
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CanonicalError("invalid_utf8", "bytes that are not UTF-8", error.start) from error


def _refusal(fault: Fault, text: str) -> CanonicalError:
    return CanonicalError(fault.reason, fault.what, len(text[: fault.at].encode("utf-8")))


class _Refused(ValueError):
    """Something that only the slow reader can name."""


def _canonical_text(text: str) -> bytes:
    """Reads by the rules of the API: `json` reads, and where something is refused the slow reader says what."""
    try:
        value = json.loads(
            text, object_pairs_hook=_members, parse_int=_integer, parse_float=_double, parse_constant=_constant
        )
        return canonical(value)
    except (ValueError, RecursionError):
        fault = fault_of(text, "hcj-1")
    raise _refusal(fault or Fault("syntax", "not JSON", 0), text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Refused
    return members


def _integer(literal: str) -> int:
    if len(literal) > _INTEGER_CHARS_MAX:
        raise _Refused
    number = int(literal)
    try:
        float(number)
    except OverflowError as error:
        raise _Refused from error
    return number


def _double(literal: str) -> float:
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise _Refused
    return number


def _constant(word: str) -> None:
    raise _Refused


def _write(value: Any, out: list[str], above: list[int]) -> None:
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(encode_basestring(value))
    elif isinstance(value, int):
        out.append(_written_integer(value))
    elif isinstance(value, float):
        out.append(_written_double(value))
    elif isinstance(value, (list, tuple)):
        _enter(value, above)
        out.append("[")
        for place, element in enumerate(value):
            if place:
                out.append(",")
            _write(element, out, above)
        out.append("]")
        above.pop()
    elif isinstance(value, Mapping):
        _enter(value, above)
        out.append("{")
        for place, name in enumerate(_sorted_names(value)):
            out.append("," if place else "")
            out.append(encode_basestring(name))
            out.append(":")
            _write(value[name], out, above)
        out.append("}")
        above.pop()
    else:
        raise _not_json(value)


def _written_integer(value: int) -> str:
    try:
        return hcj_integer(value)
    except OverflowError as error:
        raise CanonicalError("number_out_of_range", "an integer beyond the range of a double") from error


def _written_double(value: float) -> str:
    if value - value != 0:
        raise CanonicalError("not_json", f"{value!r} is no JSON number; send null or a text instead")
    return ecmascript(value)


def _enter(value: Any, above: list[int]) -> None:
    if id(value) in above:
        raise CanonicalError("not_json", "a value that contains itself")
    if len(above) == DEPTH_MAX:
        raise CanonicalError("too_deep", f"more than {DEPTH_MAX} containers inside each other")
    above.append(id(value))


def _sorted_names(value: Mapping[Any, Any]) -> list[str]:
    names = list(value)
    for name in names:
        if not isinstance(name, str):
            raise CanonicalError("not_json", f"the key {name!r} is not a text; JSON has no other keys")
    if all(name.isascii() for name in names):
        return sorted(names)
    return sorted(names, key=utf16)


def _not_json(value: Any) -> CanonicalError:
    kind = type(value).__name__
    return CanonicalError("not_json", f"a {kind} is not JSON; turn it into a text, a number, a list or a dict first")


def _plain_json(value: Any) -> str:
    """A JSON text of the value, for the profiles that start from one."""
    _write(_without_infinities(value), [], [])
    return json.dumps(_plain(value), separators=(",", ":"))


def _without_infinities(value: Any, depth: int = 0) -> Any:
    """The value as its types are checked: old profiles know NaN and Infinity, and have rules of their own on numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0
    if depth > DEPTH_MAX:
        return value
    if isinstance(value, (list, tuple)):
        return [_without_infinities(element, depth + 1) for element in value]
    if isinstance(value, Mapping):
        return {name: _without_infinities(member, depth + 1) for name, member in value.items()}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    return value

"""Finds the first fault of a JSON text, in the order in which the server finds it.

It builds no values: reading is done by `json`, which is fast and does not say what we need to know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

DEPTH_MAX = 128
PYTHON_DIGITS_MAX = 4300

_BLANKS = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(r"\.[0-9]+")
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PYTHON_WORDS = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True)
class Fault(Exception):
    """Which rule a text breaks, and at which character."""

    reason: str
    what: str
    at: int


def utf16(text: str) -> bytes:
    """Bytes that order texts by their UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def fault_of(text: str, dialect: str) -> Optional[Fault]:
    """The first fault of a text.

    `dialect` is `hcj-1` (the server's rules), `python` (`json.loads`) or `javascript` (`JSON.parse`).
    """
    if text.startswith("\ufeff"):
        return Fault("syntax", "a byte order mark", 0)
    try:
        _Reader(text, dialect).document()
    except Fault as fault:
        return fault
    return None


class _Reader:
    def __init__(self, text: str, dialect: str) -> None:
        self.text = text
        self.dialect = dialect

    def document(self) -> None:
        rest = self.blanks(self.value(self.blanks(0), 0))
        if rest < len(self.text):
            raise Fault("syntax", "more text after the value", rest)

    def byte(self, at: int) -> str:
        return self.text[at : at + 1]

    def blanks(self, at: int) -> int:
        match = _BLANKS.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, depth: int) -> int:
        opening = self.byte(at)
        if opening == '"':
            return self.string(at)[1]
        if opening and opening in "{[":
            if depth == DEPTH_MAX:
                raise Fault("too_deep", f"more than {DEPTH_MAX} containers inside each other", at)
            return self.object(at, depth) if opening == "{" else self.array(at, depth)
        if self.dialect == "python":
            for word in _PYTHON_WORDS:
                if self.text.startswith(word, at):
                    return at + len(word)
        if opening and opening in "-0123456789":
            return self.number(at)
        for word in ("true", "false", "null"):
            if self.text.startswith(word, at):
                return at + len(word)
        raise Fault("syntax", "expected a value" + ("" if opening else ", found the end"), at)

    def object(self, at: int, depth: int) -> int:
        keys: list[tuple[bytes, int]] = []
        in_order = True
        at = self.blanks(at + 1)
        if self.byte(at) == "}":
            return at + 1
        while True:
            if self.byte(at) != '"':
                raise Fault("syntax", "expected a key", at)
            name, end = self.string(at)
            key = utf16(name)
            if self.dialect == "hcj-1" and in_order and keys:
                if key == keys[-1][0]:
                    raise _duplicate(at)
                in_order = key > keys[-1][0]
            keys.append((key, at))
            at = self.blanks(end)
            if self.byte(at) != ":":
                raise Fault("syntax", "expected a colon", at)
            at = self.blanks(self.value(self.blanks(at + 1), depth + 1))
            if self.byte(at) == "}":
                break
            if self.byte(at) != ",":
                raise Fault("syntax", "expected a comma or a closing brace", at)
            at = self.blanks(at + 1)
        if self.dialect == "hcj-1" and not in_order:
            keys.sort()
            for (left, _), (right, place) in zip(keys, keys[1:]):
                if left == right:
                    raise _duplicate(place)
        return at + 1

    def array(self, at: int, depth: int) -> int:
        at = self.blanks(at + 1)
        if self.byte(at) == "]":
            return at + 1
        while True:
            at = self.blanks(self.value(at, depth + 1))
            if self.byte(at) == "]":
                return at + 1
            if self.byte(at) != ",":
                raise Fault("syntax", "expected a comma or a closing bracket", at)
            at = self.blanks(at + 1)

    def string(self, at: int) -> tuple[str, int]:
        parts: list[str] = []
        at += 1
        while True:
            match = _PLAIN.match(self.text, at)
            end = match.end() if match else at
            parts.append(self.text[at:end])
            at = end
            here = self.byte(at)
            if here == '"':
                return "".join(parts), at + 1
            if here == "":
                raise Fault("syntax", "a string without its closing quote", at)
            if here != "\\":
                raise Fault("syntax", "a control character in a string", at)
            unit, at = self.escape(at)
            parts.append(unit)

    def escape(self, at: int) -> tuple[str, int]:
        letter = self.byte(at + 1)
        if letter in _ESCAPES:
            return _ESCAPES[letter], at + 2
        if letter != "u":
            raise Fault("syntax", "an unknown escape", at)
        first = self.hex4(at + 2)
        if not 0xD800 <= first <= 0xDFFF:
            return chr(first), at + 6
        if first < 0xDC00 and self.text.startswith("\\u", at + 6):
            second = self.hex4(at + 8)
            if 0xDC00 <= second <= 0xDFFF:
                return chr(0x10000 + ((first - 0xD800) << 10) + second - 0xDC00), at + 12
        if self.dialect == "hcj-1":
            raise Fault("lone_surrogate", "a surrogate without its other half", at)
        return chr(first), at + 6

    def hex4(self, at: int) -> int:
        match = _HEX4.match(self.text, at)
        if not match:
            raise Fault("syntax", "expected four hex digits", at)
        return int(match.group(), 16)

    def number(self, at: int) -> int:
        match = _NUMBER.match(self.text, at)
        if not match:
            raise Fault("syntax", "expected a digit", at + 1)
        end = match.end()
        digits = end - at - self.text.startswith("-", at)
        if self.byte(end).isdigit() and self.byte(end).isascii():
            raise Fault("syntax", "a number with a leading zero", at)
        is_integer = True
        for mark, rest, what in (
            (".", _FRACTION, "expected a digit after the point"),
            ("eE", _EXPONENT, "expected a digit in the exponent"),
        ):
            if not self.byte(end) or self.byte(end) not in mark:
                continue
            match = rest.match(self.text, end)
            if not match:
                raise Fault("syntax", what, end + 1)
            end, is_integer = match.end(), False
        if self.dialect == "python" and is_integer and digits > PYTHON_DIGITS_MAX:
            what = f"an integer of more than {PYTHON_DIGITS_MAX} digits, which Python refuses"
            raise Fault("number_out_of_range", what, at)
        if self.dialect == "hcj-1" and abs(float(self.text[at:end])) == float("inf"):
            raise Fault("number_out_of_range", "a number beyond the range of a double", at)
        return end


def _duplicate(at: int) -> Fault:
    return Fault("duplicate_key", "the same key twice in one object", at)

"""Prints one hash per line of a file, in two ways that must agree: from the text, and from the parsed value."""

from __future__ import annotations

import json
import sys
from typing import Any

from hapax import CanonicalError, fingerprint, fingerprint_json


def of_text(line: bytes) -> str:
    try:
        return fingerprint_json(line)
    except CanonicalError as error:
        return f"refused:{error.reason}"


def of_value(line: bytes) -> str | None:
    """None where Python's own reader refuses or loses what the rules are about."""
    try:
        value: Any = json.loads(line.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no)
    except (ValueError, RecursionError):
        return None
    try:
        return fingerprint(value)
    except CanonicalError as error:
        # A number beyond the range has become an infinity, which has no name in the rules.
        return f"refused:{'number_out_of_range' if error.reason == 'not_json' else error.reason}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _no(word: str) -> None:
    raise ValueError(word)


def main() -> int:
    with open(sys.argv[1], "rb") as file:
        lines = file.read().split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        text, value = of_text(line), of_value(line)
        if value is not None and value != text:
            print(f"line {number}: the text gives {text}, the value {value}: {line[:2000]!r}", file=sys.stderr)
            return 1
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

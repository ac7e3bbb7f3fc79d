"""What a check says, and how: one line for each thing that holds, one for each that does not, and a count at the end."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent

# After SIGTERM hapax takes this long at most; every way of stopping it must leave it more. A test of the project keeps
# hapax.default.toml equal to the code.
SHUTDOWN_S = 10


class Found:
    """Counts what holds and tells what does not."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def holds(self, true: object, what: str) -> bool:
        """Notes whether `what` is so."""
        if true:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}")
        return bool(true)

    def end(self) -> None:
        """Prints the count and ends the program."""
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)

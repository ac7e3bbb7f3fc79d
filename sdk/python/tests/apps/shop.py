"""What the test apps do, whatever their framework: every run is written down, and some of them are odd."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["SHOP_FOLDER"])
GATE_WAIT_S = 20.0
OPTIONS: dict[str, Any] = {"lease_seconds": 1, "store_headers": frozenset({"x-shop"}), "max_response_bytes": 100_000}


def ran(name: str) -> int:
    """Writes down that `name` ran, and says how often it has."""
    with open(FOLDER / f"{name}.runs", "a+", encoding="utf-8") as file:
        file.write("ran\n")
        file.flush()
        file.seek(0)
        return len(file.readlines())


def gate_is_shut(name: str) -> bool:
    return not (FOLDER / f"{name}.gate").exists()


def wait_at_gate(name: str) -> None:
    ends_at = time.monotonic() + GATE_WAIT_S
    while gate_is_shut(name) and time.monotonic() < ends_at:
        time.sleep(0.01)


def crash_the_first_time(runs: int) -> None:
    if runs == 1:
        os._exit(9)

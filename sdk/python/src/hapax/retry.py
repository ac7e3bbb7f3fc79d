"""How long to wait before the next try, and for how long to go on. It chooses; nobody sleeps here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Optional

ATTEMPTS_MAX = 100


@dataclass(frozen=True)
class Retry:
    """Full jitter: a random part of a span that doubles from `base_s` to `cap_s`, for at most `attempts` tries."""

    attempts: int = 8
    base_s: float = 0.2
    cap_s: float = 10.0

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= ATTEMPTS_MAX:
            raise ValueError(f"attempts must be from 1 to {ATTEMPTS_MAX}")
        if self.base_s < 0 or self.cap_s < self.base_s:
            raise ValueError("base_s must not be negative, nor larger than cap_s")

    def wait(self, failed: int, after: Optional[float], part: float) -> float:
        """Seconds to wait after failed try number `failed` (from 1). `part` is a random number from 0 to 1.

        What the server asked for is a lower bound. A little spread comes on top of it: everybody who was refused
        at the same moment was given the same number.
        """
        span: float = min(self.cap_s, self.base_s * 2.0 ** min(failed - 1, 31))
        asked = 0.0 if after is None else after + min(self.base_s, self.cap_s) * part
        return max(span * part, asked)


NEVER = Retry(attempts=1)


def retry_after(headers: Mapping[str, str], now: Optional[datetime] = None) -> Optional[float]:
    """The seconds that `Retry-After` asks for, in seconds or as a date.

    A date is compared with the response's own `Date` where there is one, so that clocks may differ.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    at = _http_date(text)
    if at is None:
        return None
    sent = _http_date(headers.get("date", "")) or now or datetime.now(timezone.utc)
    return max(0.0, (at - sent).total_seconds())


def _http_date(text: str) -> Optional[datetime]:
    try:
        parsed = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)

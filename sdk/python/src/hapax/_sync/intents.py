# Made by tools/make_sync from _async; change it there.
"""Intents and their receipts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional, cast

import httpx

from ..shapes import Clarification, Intent, ListedReceipt, Receipt
from ..transport import Call, given, path
from .transport import Transport


def _has_receipt(response: httpx.Response) -> bool:
    """A 502 that carries the whole receipt is an answer: the gateway failed, and the receipt says how."""
    return response.status_code == 502 and b'"receipt_id"' in response.content


class Intents:
    """Intents. `replay` runs a receipt again on purpose, so it is never repeated by itself."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def submit(self, packet: Mapping[str, Any]) -> Receipt:
        """Sends a packet. The same one again answers its receipt as it stands, and runs nothing.

        A receipt whose status is `failed` is an answer, not an error.
        """
        call = Call("POST", "/v1/intents", {"kind": "intent", **packet})
        return cast(Receipt, self._transport.json(call, keep=_has_receipt))

    def receipt(self, receipt_id: str) -> Receipt:
        """A receipt as it stands now."""
        return cast(Receipt, self._transport.json(Call("GET", path("v1", "receipts", receipt_id))))

    def get(self, intent_id: str) -> Intent:
        """An intent as it was received, with everything that was recorded for it."""
        return cast(Intent, self._transport.json(Call("GET", path("v1", "intents", intent_id))))

    def receipts(self, *, status: Optional[str] = None, limit: Optional[int] = None) -> Iterator[ListedReceipt]:
        """All receipts, newest first."""
        return self._transport.items(Call("GET", "/v1/receipts", query=given(status=status, limit=limit)))

    def replay(self, receipt_id: str) -> Receipt:
        """Runs a receipt again, with new keys at the gateway."""
        call = Call("POST", path("v1", "receipts", receipt_id, "replay"), repeatable=False)
        return cast(Receipt, self._transport.json(call, keep=_has_receipt))

    def clarifications(
        self, *, status: Optional[str] = "open", limit: Optional[int] = None
    ) -> Iterator[Clarification]:
        """Questions, those of the newest receipts first."""
        return self._transport.items(Call("GET", "/v1/clarifications", query=given(status=status, limit=limit)))

    def answer(
        self, clarification_id: str, *, choice_id: Optional[str] = None, answer_text: Optional[str] = None
    ) -> Receipt:
        """Answers a question; the same receipt goes on."""
        asked = given(choice_id=choice_id, answer_text=answer_text)
        call = Call("POST", path("v1", "clarifications", clarification_id, "answer"), asked)
        return cast(Receipt, self._transport.json(call, keep=_has_receipt))

# Made by tools/make_sync from _async; change it there.
"""Keys over the remote API: claim, complete, renew and release, and what an operator may do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional, cast

from ..shapes import AuditRow, Claim, KeyDeleted, KeyEnded, KeyRenewed, KeyView, KeyWhole, Page
from ..transport import Call, given, path
from .transport import Transport


class Keys:
    """Claims on keys. Every call may be repeated; after a lost answer a repeated claim sees `in_progress`, its own
    lease, until that runs out, and a repeated release is told lease_lost."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def claim(
        self,
        *,
        method: str,
        path: str,
        key: Optional[str] = None,
        principal: Optional[str] = None,
        body: Any = None,
        body_base64: Optional[str] = None,
        content_type: Optional[str] = None,
        ttl_seconds: Optional[int] = None,
        lease_seconds: Optional[int] = None,
    ) -> Claim:
        """What the key gets. Without a key the server derives one from the request.

        `principal` says who sends the request: it is part of a derived key, and under another key a replay is given to
        the same principal only. Hapax keeps its hash alone.

        A `body` that is a text stands for its characters; any other value for its JSON.
        """
        asked = given(
            key=key,
            principal=principal,
            method=method,
            path=path,
            body=body,
            body_base64=body_base64,
            content_type=content_type,
            ttl_seconds=ttl_seconds,
            lease_seconds=lease_seconds,
        )
        return cast(Claim, self._transport.json(Call("POST", "/v1/keys/claim", asked)))

    def complete(
        self,
        key_id: str,
        *,
        token: str,
        status: int,
        headers: Optional[Mapping[str, str]] = None,
        body: Any = None,
        body_base64: Optional[str] = None,
        stored: bool = True,
    ) -> KeyEnded:
        """Records the outcome, once. A status that says "try again" gives the key back instead.

        `stored=False` is for an answer that cannot be kept, because it is too large or is a stream: that it was given
        is recorded, and the next claim answers in_doubt with the reason response_not_stored. Only the token of the
        last renewal, or of the claim if there was none, lets a repeated complete be known as the same.
        """
        asked = given(
            token=token,
            status=status,
            headers=dict(headers) if headers else None,
            body=body,
            body_base64=body_base64,
            stored=None if stored else False,
        )
        return cast(KeyEnded, self._transport.json(Call("POST", path("v1", "keys", key_id, "complete"), asked)))

    def renew(self, key_id: str, *, token: str) -> KeyRenewed:
        """Extends the lease. The answer has a new token: carry that one from now on."""
        call = Call("POST", path("v1", "keys", key_id, "renew"), {"token": token})
        return cast(KeyRenewed, self._transport.json(call))

    def release(self, key_id: str, *, token: str) -> KeyEnded:
        """Gives the key back: the next claim runs as new."""
        call = Call("POST", path("v1", "keys", key_id, "release"), {"token": token})
        return cast(KeyEnded, self._transport.json(call))

    def list(
        self, *, route: Optional[str] = None, state: Optional[str] = None, limit: Optional[int] = None
    ) -> Iterator[KeyView]:
        """All keys, newest first. `limit` is the size of a page."""
        return self._transport.items(Call("GET", "/v1/keys", query=given(route=route, state=state, limit=limit)))

    def page(
        self,
        *,
        route: Optional[str] = None,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> Page[KeyView]:
        """One page of keys."""
        query = given(route=route, state=state, limit=limit, cursor=cursor)
        return self._transport.page(Call("GET", "/v1/keys", query=query))

    def get(self, key_id: str) -> KeyWhole:
        """One key, with what was asked and what was answered, secrets masked."""
        return cast(KeyWhole, self._transport.json(Call("GET", path("v1", "keys", key_id))))

    def delete(self, key_id: str) -> KeyDeleted:
        """Removes a key: its next use runs as new."""
        return cast(KeyDeleted, self._transport.json(Call("DELETE", path("v1", "keys", key_id))))

    def settle(
        self,
        key_id: str,
        *,
        status: Optional[int] = None,
        headers: Optional[Mapping[str, str]] = None,
        body: Any = None,
        body_base64: Optional[str] = None,
        release: Optional[bool] = None,
    ) -> KeyEnded:
        """Ends doubt: records what happened, or gives the key back. For an owner."""
        asked = given(
            status=status,
            headers=dict(headers) if headers else None,
            body=body,
            body_base64=body_base64,
            release=release,
        )
        return cast(KeyEnded, self._transport.json(Call("POST", path("v1", "keys", key_id, "settle"), asked)))

    def audit(
        self, *, action: Optional[str] = None, key_id: Optional[str] = None, limit: Optional[int] = None
    ) -> Iterator[AuditRow]:
        """What happened to keys, newest first."""
        return self._transport.items(Call("GET", "/v1/audit", query=given(action=action, key_id=key_id, limit=limit)))

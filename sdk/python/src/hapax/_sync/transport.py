# Made by tools/make_sync from _async; change it there.
"""Sends calls to the server, and repeats those that may be repeated."""

from __future__ import annotations

import time
import json
from collections.abc import Iterator
from typing import Any, Callable, Optional

import httpx

from ..errors import Error, Unavailable, error_of
from ..retry import Retry, retry_after
from ..sending import jitter
from ..shapes import Page
from ..transport import ANSWER_BYTES_MAX, Call, is_repeated, no_token, query_of, to_json

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Transport:
    """One HTTP client, and how patient it is."""

    def __init__(self, http: httpx.Client, retry: Retry) -> None:
        self.http = http
        self._retry = retry

    @property
    def has_token(self) -> bool:
        """Whether requests say who sends them."""
        return "Authorization" in self.http.headers

    def send(self, call: Call, *, keep: Optional[Callable[[httpx.Response], bool]] = None) -> httpx.Response:
        """The answer to a call. One of 400 and more is raised, unless `keep` says that it is an answer too."""
        failed = 0
        while True:
            try:
                return self._once(call, keep)
            except _Failed as failure:
                failed += 1
                is_last = failed >= self._retry.attempts
                if is_last or not is_repeated(call, failure.error, was_sent=failure.was_sent):
                    raise failure.error from failure.__cause__
                time.sleep(self._retry.wait(failed, failure.after, jitter()))

    def _once(self, call: Call, keep: Optional[Callable[[httpx.Response], bool]]) -> httpx.Response:
        content = to_json(call.body) if call.has_body and call.body is not None else None
        headers = dict(call.headers)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self.http.request(
                call.method, call.path, content=content, params=query_of(call), headers=headers
            )
        except (httpx.TransportError, OSError) as error:
            was_sent = not isinstance(error, _NOT_SENT)
            lost = Unavailable(f"{call.method} {call.path} got no answer: {error!r}; is the server running?")
            raise _Failed(lost, None, was_sent=was_sent) from error
        if len(response.content) > ANSWER_BYTES_MAX:
            raise Unavailable(f"the answer to {call.method} {call.path} has more than {ANSWER_BYTES_MAX} bytes")
        if response.status_code >= 400 and not (keep and keep(response)):
            error_told = error_of(response.status_code, response.headers, response.content)
            if response.status_code == 401 and not self.has_token:
                error_told = no_token()
            raise _Failed(error_told, retry_after(response.headers), was_sent=True)
        return response

    def json(self, call: Call, *, keep: Optional[Callable[[httpx.Response], bool]] = None) -> Any:
        """The answer to a call, read as JSON."""
        response = self.send(call, keep=keep)
        try:
            return json.loads(response.content)
        except ValueError as error:
            raise Unavailable(
                f"the answer to {call.method} {call.path} is not JSON; is this a hapax server?"
            ) from error

    def page(self, call: Call) -> Page[Any]:
        """One page of a list."""
        told = self.json(call)
        return Page(items=told["items"], next_cursor=told.get("next_cursor"))

    def items(self, call: Call) -> Iterator[Any]:
        """Everything that a list holds, page by page."""
        seen: set[str] = set()
        while True:
            page = self.page(call)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            if page.next_cursor in seen:
                raise Unavailable(f"the pages of {call.path} go in a circle; is this a hapax server?")
            seen.add(page.next_cursor)
            call = Call(call.method, call.path, query={**call.query, "cursor": page.next_cursor})


class _Failed(Exception):
    """A call failed, and may be sent again."""

    def __init__(self, error: Error, after: Optional[float], *, was_sent: bool) -> None:
        self.error = error
        self.after = after
        self.was_sent = was_sent
        super().__init__(str(error))

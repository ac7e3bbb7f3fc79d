# Made by tools/make_sync from _async; change it there.
"""The client: one connection pool, and the groups of calls."""

from __future__ import annotations

from types import TracebackType
from typing import Optional, cast

import httpx

from ..retry import Retry
from ..shapes import Health, Stats, Version
from ..transport import TIMEOUT_S, Call, no_token, settings
from .entries import Entries
from .intents import Intents
from .jobs import Jobs, Ops
from .keys import Keys
from .snapshots import Snapshots
from .transport import Transport


class Hapax:
    """A client of a hapax server.

    `base_url` and `token` default to HAPAX_URL and HAPAX_TOKEN. Calls that may be repeated are, on network errors,
    429 and a server that is not available, as `retry` says. Not repeated after a lost answer are jobs.lease,
    intents.replay, entries.toggle_test_mode, and entries.insert without keys.
    """

    def __init__(
        self,
        base_url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        timeout: float = TIMEOUT_S,
        retry: Optional[Retry] = None,
        http: Optional[httpx.Client] = None,
    ) -> None:
        url, headers = settings(base_url, token)
        # Traffic to the server is ours alone: no proxy of the environment, and no redirect takes the token along.
        self._is_open = token == ""
        self._http = http or httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)
        self.base_url = url
        self.transport = Transport(self._http, retry or Retry(attempts=4, cap_s=2.0))
        self.keys = Keys(self.transport)
        self.intents = Intents(self.transport)
        self.snapshots = Snapshots(self.transport)
        self.entries = Entries(self.transport)
        self.jobs = Jobs(self.transport)
        self.ops = Ops(self.transport)
        self.audit = self.keys.audit
        self.reconcile = self.jobs.reconcile

    def check_token(self) -> None:
        """Raises HapaxError unless there is a token, or an empty one was given on purpose. Sends nothing."""
        if not (self._is_open or self.transport.has_token):
            raise no_token()

    def stats(self) -> Stats:
        """The figures of keys since the server started."""
        return cast(Stats, self.transport.json(Call("GET", "/v1/stats")))

    def health(self) -> Health:
        """Whether the server lives, and what it keeps its data in."""
        return cast(Health, self.transport.json(Call("GET", "/health")))

    def version(self) -> Version:
        """Which build the server is."""
        return cast(Version, self.transport.json(Call("GET", "/version")))

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Hapax:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

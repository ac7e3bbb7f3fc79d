"""The client: one connection pool, and the groups of calls."""

from __future__ import annotations

from types import TracebackType
from typing import Optional, cast

import httpx

from ..retry import Retry
from ..shapes import Health, Stats, Version
from ..transport import TIMEOUT_S, Call, no_token, settings
from .entries import AsyncEntries
from .intents import AsyncIntents
from .jobs import AsyncJobs, AsyncOps
from .keys import AsyncKeys
from .snapshots import AsyncSnapshots
from .transport import AsyncTransport


class AsyncHapax:
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
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        url, headers = settings(base_url, token)
        # Traffic to the server is ours alone: no proxy of the environment, and no redirect takes the token along.
        self._is_open = token == ""
        self._http = http or httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=False)
        self.base_url = url
        self.transport = AsyncTransport(self._http, retry or Retry(attempts=4, cap_s=2.0))
        self.keys = AsyncKeys(self.transport)
        self.intents = AsyncIntents(self.transport)
        self.snapshots = AsyncSnapshots(self.transport)
        self.entries = AsyncEntries(self.transport)
        self.jobs = AsyncJobs(self.transport)
        self.ops = AsyncOps(self.transport)
        self.audit = self.keys.audit
        self.reconcile = self.jobs.reconcile

    def check_token(self) -> None:
        """Raises HapaxError unless there is a token, or an empty one was given on purpose. Sends nothing."""
        if not (self._is_open or self.transport.has_token):
            raise no_token()

    async def stats(self) -> Stats:
        """The figures of keys since the server started."""
        return cast(Stats, await self.transport.json(Call("GET", "/v1/stats")))

    async def health(self) -> Health:
        """Whether the server lives, and what it keeps its data in."""
        return cast(Health, await self.transport.json(Call("GET", "/health")))

    async def version(self) -> Version:
        """Which build the server is."""
        return cast(Version, await self.transport.json(Call("GET", "/version")))

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncHapax:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.aclose()

# Made by tools/make_sync from _async; change it there.
"""Claims a key for a request, keeps its lease while the request runs, and records its answer."""

from __future__ import annotations

import time
import logging
from typing import Optional, Union

from .. import door as rules
from ..door import Answer, Asked, Granted, Options, Unkept
from ..errors import Error, HapaxError, LeaseLost, Unavailable
from ..sending import monotonic
from ..shapes import Claim
from .client import Hapax

_log = logging.getLogger("hapax")
_POLL_S = 0.1


class Door:
    """The way in for keyed requests, for any framework."""

    def __init__(self, client: Hapax, options: Options) -> None:
        self._client = client
        self._options = options

    def enter(self, asked: Asked) -> Union[Granted, Answer, None]:
        """The right to run, or the answer to give instead. None: run without protection (`fail_open`)."""
        ends_at = monotonic() + self._options.wait_ms / 1000
        while True:
            try:
                claim = self._claim(asked)
            except HapaxError as error:
                _log.error("hapax refused a claim: %s", error)
                return rules.refused_claim(asked, error)
            except Unavailable as error:
                _log.error("hapax could not be asked about a key: %s", error)
                return None if self._options.fail_open else rules.unavailable(asked)
            if claim["action"] != "in_progress" or monotonic() >= ends_at:
                return self._entered(asked, claim)
            time.sleep(min(_POLL_S, max(0.0, ends_at - monotonic())))

    def _claim(self, asked: Asked) -> Claim:
        return self._client.keys.claim(
            method=asked.method,
            path=asked.path,
            key=asked.key,
            principal=asked.principal,
            content_type=asked.content_type,
            ttl_seconds=self._options.ttl_seconds,
            lease_seconds=self._options.lease_seconds,
            **rules.sent_body(asked.body),
        )

    def _entered(self, asked: Asked, claim: Claim) -> Union[Granted, Answer]:
        action = claim["action"]
        if action == "process":
            if claim["lost"] and self._options.on_lost == "hold":
                # Our own lease is left to run out: the doubt stays until an operator ends it.
                return rules.in_doubt(asked, claim, "runner_died")
            return Granted(asked, claim)
        if action == "replay":
            return rules.replayed(claim)
        if action == "conflict":
            return rules.conflict(asked, claim, self._options)
        if action == "in_progress":
            return rules.in_progress(asked, claim)
        if action == "erased":
            return rules.erased(asked)
        return rules.in_doubt(asked, claim, claim.get("reason", "runner_died"))

    def renew(self, granted: Granted) -> bool:
        """Keeps the lease. False when it is lost."""
        try:
            renewed = self._client.keys.renew(granted.key_id, token=granted.token)
            # Only with the newest token is a complete that is sent twice known to be the same.
            granted.token = renewed["token"]
        except LeaseLost:
            _log.warning("the lease of key %s was lost while its request ran", granted.claim["key"])
            return False
        except Error as error:
            _log.warning("the lease of key %s was not renewed: %s", granted.claim["key"], error)
        return True

    def record(self, granted: Granted, answer: Union[Answer, Unkept]) -> Optional[Answer]:
        """Records an answer before it is sent. Gives another that is to be sent in its place, or None."""
        if not rules.is_final(answer.status):
            self.release(granted)
            return None
        kept = rules.kept(answer, self._options)
        try:
            self._complete(granted, kept)
        except LeaseLost:
            return self._recorded_elsewhere(granted, kept)
        except Error as error:
            _log.error("the answer of key %s was not recorded: %s", granted.claim["key"], error)
            return rules.not_recorded(granted.asked)
        return None

    def _complete(self, granted: Granted, kept: Union[Answer, Unkept]) -> None:
        try:
            told = rules.completion(kept, self._options)
            self._client.keys.complete(granted.key_id, token=granted.token, **told)
        except HapaxError as error:
            if error.code != "payload_too_large":
                raise
            told = rules.completion(Unkept(kept.status), self._options)
            self._client.keys.complete(granted.key_id, token=granted.token, **told)

    def _recorded_elsewhere(self, granted: Granted, kept: Union[Answer, Unkept]) -> Optional[Answer]:
        """Everyone gets the recorded answer, this caller included. It may be our own: where the answers to a renewal
        and to the complete got lost, the server cannot know the complete again."""
        _log.error("the lease of key %s was lost; its answer is not recorded", granted.claim["key"])
        try:
            claim = self._claim(granted.asked)
        except Error as error:
            _log.error("nor could it be asked about: %s", error)
            return rules.not_recorded(granted.asked)
        if claim["action"] == "process":
            self.release(Granted(granted.asked, claim))
            return rules.not_recorded(granted.asked)
        if claim["action"] == "replay":
            return rules.replayed(claim)
        if isinstance(kept, Unkept) and claim.get("reason") == "response_not_stored":
            return None
        return rules.not_recorded(granted.asked)

    def release(self, granted: Granted) -> None:
        """Gives the key back: the request did not come to an answer."""
        try:
            self._client.keys.release(granted.key_id, token=granted.token)
        except Error as error:
            _log.error("key %s was not given back, and is free when its lease ends: %s", granted.claim["key"], error)

"""A client that pays once and sends letters once, though it is told to do both more than once.

Start a server (`hapax serve`), set HAPAX_TOKEN to its token, and run this script.
"""

from __future__ import annotations

import argparse
import os
import uuid
from typing import Any

import httpx

import hapax

URL = os.environ.get("HAPAX_URL", "http://127.0.0.1:8088")
HEADERS = {"Authorization": f"Bearer {os.environ.get('HAPAX_TOKEN', '')}"}


def pay(folder: str) -> None:
    """Three posts under one key: the first acts, the second is a replay, the third is a conflict."""
    store = hapax.FileKeyStore(folder)
    order = f"order-{uuid.uuid4()}"
    with httpx.Client(base_url=URL, headers=HEADERS, timeout=10) as http:

        def send(key: str, attempt: int) -> httpx.Response:
            return http.post("/v1/echo", json={"amount": 1000, "order": order}, headers={"Idempotency-Key": key})

        # The key is on disk before it is sent: a process that dies here sends the same one again.
        first = hapax.with_idempotency_key(send, store=store, name=order)
        first.unwrap()
        print(f"paid: {first.status}, replayed: {first.replayed}")

        again = hapax.with_idempotency_key(send, key=first.key)
        print(f"the answer got lost, sent again: {again.status}, replayed: {again.replayed}")

    other = hapax.post(f"{URL}/v1/echo", json={"amount": 9900, "order": order}, headers=HEADERS, key=first.key)
    assert other.conflict is not None
    print(f"another amount under the same key: {other.status} {other.conflict['diff_summary'][0]}")


def send_letters(client: hapax.Hapax) -> None:
    """Plans each letter twice, and has a worker send it: one job per letter, one effect per job."""
    kind = f"letter-{uuid.uuid4().hex[:12]}"
    sent: list[str] = []

    @hapax.job(kind)
    def send_letter(job: hapax.HeldJob) -> Any:
        def post(op: hapax.OpRun) -> dict[str, str]:
            # A real post office would be given op.op_key, so that it knows a letter that comes again.
            sent.append(job.payload["to"])
            return {"receipt": op.op_key[:8]}

        return hapax.run_effect(job, "POST_LETTER", {"to": job.payload["to"]}, post, op_class="keyed")

    for _ in range(2):
        for name in ("ann", "bob", "eve"):
            client.jobs.plan(
                work_id="letters", artifact_id=name, canonical_url=f"mail:{name}", kind=kind, payload={"to": name}
            )
    hapax.Worker(client, [send_letter], idle_s=0.1).run(until_idle=True)
    assert sorted(sent) == ["ann", "bob", "eve"], sent
    print(f"{len(sent)} letters sent, each once")


def main() -> None:
    parser = argparse.ArgumentParser(description="Pay once and send letters once.")
    parser.add_argument("--keys", default="keys", help="the folder that keeps keys until they are answered")
    asked = parser.parse_args()
    pay(asked.keys)
    with hapax.Hapax() as client:
        send_letters(client)


if __name__ == "__main__":
    main()

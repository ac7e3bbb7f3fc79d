"""A worker that logs nothing by itself and ends by Ctrl-C. Arguments: `sync` or `async`, the kind of jobs, how long one
takes."""

from __future__ import annotations

import asyncio
import sys
import time

from hapax import AsyncHapax, AsyncHeldJob, AsyncWorker, Hapax, HeldJob, Worker


def handle(held: HeldJob) -> str:
    print("began", flush=True)
    time.sleep(goes_on_s)
    return "came to its end"


async def handle_async(held: AsyncHeldJob) -> str:
    print("began", flush=True)
    await asyncio.sleep(goes_on_s)
    return "came to its end"


async def run_async(kind: str) -> int:
    async with AsyncHapax() as client:
        return await AsyncWorker(client, kinds={kind: handle_async}, idle_s=30).run()


if __name__ == "__main__":
    way, kind, goes_on_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    attempts = (
        asyncio.run(run_async(kind)) if way == "async" else Worker(Hapax(), kinds={kind: handle}, idle_s=30).run()
    )
    print(f"{attempts} attempts", flush=True)

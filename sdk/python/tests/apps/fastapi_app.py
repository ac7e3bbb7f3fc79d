"""A FastAPI shop behind the middleware. Its client finds the server by HAPAX_URL and HAPAX_TOKEN."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Optional

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from hapax.asgi import IdempotencyMiddleware
from hapax.door import Options

from . import shop

app = FastAPI()


def sender(scope: Any) -> Optional[str]:
    found: Optional[bytes] = dict(scope["headers"]).get(b"x-user")
    return found.decode() if found else None


app.add_middleware(IdempotencyMiddleware, principal=sender, options=Options(**shop.OPTIONS))


@app.api_route("/pay/{name}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def pay(name: str, request: Request) -> Response:
    body: Any = await request.json() if await request.body() else None
    headers = {"Location": f"/pay/{name}", "X-Shop": "open", "X-Other": "1"}
    response = JSONResponse({"paid": body, "run": shop.ran(name)}, 201, headers)
    response.set_cookie("session", "secret")
    return response


@app.post("/binary/{name}")
async def binary(name: str, request: Request) -> Response:
    shop.ran(name)
    return Response(bytes(reversed(await request.body())), media_type="application/octet-stream")


@app.post("/gated/{name}")
async def gated(name: str) -> dict[str, int]:
    run = shop.ran(name)
    for _ in range(int(shop.GATE_WAIT_S * 100)):
        if not shop.gate_is_shut(name):
            break
        await asyncio.sleep(0.01)
    return {"run": run}


@app.post("/crash/{name}")
async def crash(name: str) -> dict[str, int]:
    run = shop.ran(name)
    shop.crash_the_first_time(run)
    return {"run": run}


@app.post("/status/{code}/{name}")
async def status(code: int, name: str) -> Response:
    return JSONResponse({"run": shop.ran(name)}, code)


@app.post("/raises/{name}")
async def raises(name: str) -> dict[str, int]:
    if shop.ran(name) == 1:
        raise RuntimeError("planted")
    return {"run": 2}


@app.post("/large/{name}")
async def large(name: str) -> Response:
    shop.ran(name)
    return Response(b"x" * 300_000, media_type="text/plain")


@app.post("/stream/{name}")
async def stream(name: str) -> Response:
    shop.ran(name)

    async def events() -> AsyncIterator[bytes]:
        for number in range(3):
            yield f"data: {number}\n\n".encode()

    return StreamingResponse(events(), media_type="text/event-stream")

"""The same shop in Django, for WSGI (`wsgi`) and ASGI (`asgi`)."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import django
from django.conf import settings

from . import shop

settings.configure(
    SECRET_KEY="not a secret",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["hapax.django.IdempotencyMiddleware"],
    HAPAX_IDEMPOTENCY=shop.OPTIONS,
    HAPAX_PRINCIPAL=lambda request: request.headers.get("x-user"),
    DEBUG=False,
    LOGGING_CONFIG=None,
)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402


def pay(request: Any, name: str) -> Any:
    body = json.loads(request.body) if request.body else None
    response = JsonResponse({"paid": body, "run": shop.ran(name)}, status=201)
    response["Location"], response["X-Shop"], response["X-Other"] = f"/pay/{name}", "open", "1"
    response.set_cookie("session", "secret")
    return response


def binary(request: Any, name: str) -> Any:
    shop.ran(name)
    return HttpResponse(bytes(reversed(request.body)), content_type="application/octet-stream")


def gated(request: Any, name: str) -> Any:
    run = shop.ran(name)
    shop.wait_at_gate(name)
    return JsonResponse({"run": run})


async def gated_async(request: Any, name: str) -> Any:
    run = shop.ran(name)
    for _ in range(int(shop.GATE_WAIT_S * 100)):
        if not shop.gate_is_shut(name):
            break
        await asyncio.sleep(0.01)
    return JsonResponse({"run": run})


def crash(request: Any, name: str) -> Any:
    run = shop.ran(name)
    shop.crash_the_first_time(run)
    return JsonResponse({"run": run})


def status(request: Any, code: int, name: str) -> Any:
    return JsonResponse({"run": shop.ran(name)}, status=code)


def raises(request: Any, name: str) -> Any:
    if shop.ran(name) == 1:
        raise RuntimeError("planted")
    return JsonResponse({"run": 2})


def large(request: Any, name: str) -> Any:
    shop.ran(name)
    return HttpResponse(b"x" * 300_000, content_type="text/plain")


def stream(request: Any, name: str) -> Any:
    shop.ran(name)
    return StreamingHttpResponse((f"data: {number}\n\n" for number in range(3)), content_type="text/event-stream")


urlpatterns = [
    path("pay/<name>", pay),
    path("binary/<name>", binary),
    path("gated/<name>", gated_async if os.environ.get("SHOP_ASYNC") else gated),
    path("crash/<name>", crash),
    path("status/<int:code>/<name>", status),
    path("raises/<name>", raises),
    path("large/<name>", large),
    path("stream/<name>", stream),
]

wsgi = get_wsgi_application()
asgi = get_asgi_application()


def serve() -> None:
    """Serves `wsgi` on a free port, a thread per request, and says where."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    class Threaded(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            return

    server = make_server("127.0.0.1", 0, wsgi, server_class=Threaded, handler_class=Quiet)
    print(f"Uvicorn running on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()

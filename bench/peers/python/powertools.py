"""AWS Lambda Powertools' idempotency over Redis (REDIS_PORT), behind the handler of the bench."""

import itertools
import json
import os
import socket

import uvicorn
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.persistence.redis import RedisCachePersistenceLayer
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

os.environ.setdefault("POWERTOOLS_METRICS_NAMESPACE", "bench")
numbers = itertools.count(1)
layer = RedisCachePersistenceLayer(host="127.0.0.1", port=int(os.environ["REDIS_PORT"]), ssl=False)
config = IdempotencyConfig(event_key_jmespath="key", expires_after_seconds=3600)


@idempotent_function(data_keyword_argument="asked", persistence_store=layer, config=config)
def pay(asked):
    body = json.loads(asked["body"])
    return {
        "id": f"pay_{next(numbers):012d}",
        "status": "succeeded",
        **{name: body[name] for name in ("amount", "currency", "customer", "description", "reference")},
    }


async def payments(request):
    body = (await request.body()).decode()
    paid = pay(asked={"key": request.headers["idempotency-key"], "body": body})
    return Response(json.dumps(paid, separators=(",", ":")), status_code=201, media_type="application/json")


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = Starlette(routes=[Route("/payments", payments, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])

#!/usr/bin/env python3
"""A payment API in Stripe's form, which is an OpenAI-compatible model too. It knows nothing of idempotency: every POST that
it carries out is another charge, or another answer that is paid for.

`metadata[plan]=busy` in a form is answered 503 the first time; with `lost` the money is taken and the connection breaks.

payments.py [HOST:PORT]
"""

import itertools
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote

TAGS = ["tea", "leaves", "water", "cup", "garden"]
numbers = itertools.count(1)
refused = set()


def completion(number, model):
    found = {"topic_primary": "food", "keywords": TAGS, "gist": f"answer {number}", "flags": {}}
    message = {"role": "assistant", "content": json.dumps(found)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}


class Payments(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = unquote(text)
        if "[plan]=busy" in form and text not in refused:
            refused.add(text)
            return self.answer(503, {"error": {"type": "api_error", "message": "busy"}})
        number = next(numbers)
        print(f"{number}: {self.path} {form[:60]}", flush=True)
        if "[plan]=lost" in form:
            self.close_connection = True
            return None
        if not self.path.endswith("/chat/completions"):
            amount = int(parse_qs(text).get("amount", ["0"])[0])
            return self.answer(200, {"id": f"pi_{number}", "object": "payment_intent", "amount": amount})
        asked = json.loads(text)
        if asked.get("stream"):
            return self.stream(number, asked["model"])
        return self.answer(200, completion(number, asked["model"]))

    def answer(self, status, document):
        body = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, number, model):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for word in ("one ", "two"):
            choice = {"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}
            part = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}
            self.wfile.write(b"data: " + json.dumps(part).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    host, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:3000").rsplit(":", 1)
    server = ThreadingHTTPServer((host, int(port)), Payments)
    print(f"listening on http://{host}:{server.server_port}", flush=True)
    server.serve_forever()

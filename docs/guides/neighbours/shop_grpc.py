#!/usr/bin/env python3
"""A gRPC service, and its client, without generated code: messages are bytes. Needs grpcio.

shop_grpc.py serve HOST:PORT
shop_grpc.py call HOST:PORT MESSAGE KEY     prints what came, or the status and its message
"""

import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

numbers = itertools.count(1)


class Payments(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.pay) if details.method == "/shop.Payments/Pay" else None

    def pay(self, message, context):
        number = next(numbers)
        print(f"{number}: {message.decode()}", flush=True)
        if message == b"slow":
            time.sleep(3)
        if message == b"refuse":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such account")
        if message == b"busy":
            context.abort(grpc.StatusCode.UNAVAILABLE, "come again")
        return f"paid {number}".encode()


def serve(address):
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Payments(),))
    server.add_insecure_port(address)
    server.start()
    print(f"listening on http://{address}", flush=True)
    server.wait_for_termination()


def call(address, message, key):
    with grpc.insecure_channel(address) as channel:
        pay = channel.unary_unary("/shop.Payments/Pay")
        try:
            print(pay(message.encode(), metadata=(("idempotency-key", key),), timeout=20).decode())
        except grpc.RpcError as error:
            print(error.code().name, error.details())


if __name__ == "__main__":
    {"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])

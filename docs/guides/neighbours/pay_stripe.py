#!/usr/bin/env python3
"""Pays through Stripe's SDK for Python. Prints the payment and whether it was a replay, or the error and how often the SDK tried.

pay_stripe.py URL AMOUNT [KEY [PLAN]]     without a key, or with an empty one, the SDK makes its own
"""

import logging
import sys

import stripe

url, amount, key, plan = (*sys.argv[1:], "", "")[:4]
stripe.api_base, stripe.api_key, stripe.max_network_retries = url, "sk_test_1", 2
more = {"idempotency_key": key} if key else {}
tries = 1


class Retries(logging.Handler):
    def emit(self, record):
        global tries
        tries += "nitiating retry" in record.getMessage()


logging.getLogger("stripe").addHandler(Retries())
logging.getLogger("stripe").setLevel(logging.INFO)
try:
    paid = stripe.PaymentIntent.create(amount=int(amount), currency="eur", metadata={"plan": plan}, **more)
    print(paid.id, paid.last_response.headers.get("idempotency-replayed", "first"))
except stripe.StripeError as error:
    print(type(error).__name__, error.http_status, error.user_message, f"after {tries}")

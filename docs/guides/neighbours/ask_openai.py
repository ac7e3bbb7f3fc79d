#!/usr/bin/env python3
"""Asks a model through OpenAI's SDK or LiteLLM's. Prints the answer's id and whether it was a replay, or the error.

ask_openai.py openai|stream|litellm URL KEY QUESTION
"""

import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
way, url, key, question = sys.argv[1:]
messages = [{"role": "user", "content": question}]
headers = {"Idempotency-Key": key}
try:
    if way == "litellm":
        import litellm

        litellm.suppress_debug_info = True
        told = litellm.completion(
            model="openai/t1", api_base=f"{url}/v1", api_key="sk-1", messages=messages, extra_headers=headers
        )
        found = told._hidden_params["additional_headers"]
        print(told.id, found.get("llm_provider-idempotency-replayed", "first"))
    else:
        import openai

        ask = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-1").chat.completions
        if way == "stream":
            parts = ask.create(model="t1", messages=messages, extra_headers=headers, stream=True)
            print("".join(part.choices[0].delta.content or "" for part in parts))
        else:
            told = ask.with_raw_response.create(model="t1", messages=messages, extra_headers=headers)
            print(told.parse().id, told.headers.get("idempotency-replayed", "first"))
except Exception as error:
    print(type(error).__name__, getattr(error, "status_code", ""))

"""Every call of the client is an operation of spec/openapi.json: its path, its query, its body and its answer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Union, get_args, get_origin, get_type_hints

import httpx
import pytest
from jsonschema import Draft202012Validator

from hapax import Hapax
from hapax.shapes import Page

from .openapi import DOCUMENT, Form, answer_schema, form_of_schema, form_of_type, operations, path_pattern, resolved


class Made(NamedTuple):
    """A method of the client, the operation that it calls, and arguments for it."""

    method: str
    operation: str
    arguments: dict[str, Any]


_FENCE: dict[str, Any] = {"owner": "me", "epoch": 3}
_BODIES: list[dict[str, Any]] = [{"body": {"n": 1}}, {"body_base64": "/wAB"}]
_COLLECTION = {"collection": "courses"}
_ENTITY = {"entity_id": "e", **_COLLECTION}
_JOB = {"work_id": "w", "artifact_id": "a", "canonical_url": "u"}
_READ: dict[str, Any] = {"limit": 1, "days": 1, "q": "word", "returning": ["title"]}
_TEXT: dict[str, Any] = {"clean_text": "t", "title": "T", "author": "A", "content_type": "article"}

CALLS: list[Made] = [
    *(
        Made(
            "keys.claim",
            "claim_key",
            {
                "method": "POST",
                "path": "/pay",
                "key": "k",
                "principal": "ann",
                "content_type": "application/json",
                "ttl_seconds": 60,
                "lease_seconds": 9,
                **body,
            },
        )
        for body in _BODIES
    ),
    *(
        Made(
            "keys.complete",
            "complete_key",
            {"key_id": "i", "token": "t", "status": 201, "headers": {"location": "/1"}, **body},
        )
        for body in [*_BODIES, {"stored": False}]
    ),
    Made("keys.renew", "renew_key", {"key_id": "i", "token": "t"}),
    Made("keys.release", "release_key", {"key_id": "i", "token": "t"}),
    Made("keys.list", "list_keys", {"route": "POST:pay", "state": "in_doubt", "limit": 2}),
    Made("keys.page", "list_keys", {"route": "POST:pay", "state": "held", "limit": 2, "cursor": "c"}),
    Made("keys.get", "get_key", {"key_id": "i"}),
    Made("keys.delete", "delete_key", {"key_id": "i"}),
    *(
        Made("keys.settle", "settle_key", {"key_id": "i", "status": 200, "headers": {"location": "/1"}, **body})
        for body in _BODIES
    ),
    Made("keys.settle", "settle_key", {"key_id": "i", "release": True}),
    Made("keys.audit", "list_audit", {"action": "key_settled", "key_id": "i", "limit": 2}),
    Made("intents.submit", "send_intent", {"packet": {"source": "s", "fields": {"title": "t"}, "confidence": 0.5}}),
    Made("intents.receipt", "get_receipt", {"receipt_id": "r"}),
    Made("intents.get", "get_intent", {"intent_id": "i"}),
    Made("intents.receipts", "list_receipts", {"status": "failed", "limit": 2}),
    Made("intents.replay", "replay_receipt", {"receipt_id": "r"}),
    Made("intents.clarifications", "list_clarifications", {"status": "open", "limit": 2}),
    Made("intents.answer", "answer_clarification", {"clarification_id": "c", "choice_id": "1"}),
    Made("intents.answer", "answer_clarification", {"clarification_id": "c", "answer_text": "t"}),
    Made("snapshots.ingest", "ingest_snapshot", {"payload": {"course": {"id": "1"}}, "key": "k", **_COLLECTION}),
    Made("snapshots.ingest_batch", "ingest_snapshots", {"payloads": [{"course": {"id": "1"}}], **_COLLECTION}),
    Made("snapshots.list", "list_entities", {"search": "s", "limit": 2, "offset": 1, **_COLLECTION}),
    Made("snapshots.get", "get_entity", _ENTITY),
    Made("snapshots.history", "list_snapshots", {"limit": 2, **_ENTITY}),
    Made("snapshots.snapshot", "get_snapshot", {"snapshot_id": "s", **_ENTITY}),
    Made("entries.normalize_telegram", "normalize_telegram", {"message": {"text": "t", "source": {"chat_id": 1}}}),
    Made(
        "entries.normalize_email",
        "normalize_email",
        {"mail": {"raw_text": "t", "from": "a@example.org", "subject": "s"}},
    ),
    Made("entries.normalize_webpage", "normalize_webpage", {"page": {"text": "t", "url": "https://example.org/"}}),
    Made("entries.insert", "insert_entries", {"entry": {"source": "web", "title": "T"}, "returning": ["entry_id"]}),
    Made(
        "entries.insert_batch",
        "insert_entries",
        {"items": [{"source": "web"}], "continue_on_error": False, "returning": ["entry_id"]},
    ),
    Made("entries.update", "update_entries", {"change": {"entry_id": 1, "title": "T"}, "returning": ["title"]}),
    Made("entries.read_last", "read_last", _READ),
    Made("entries.read_find", "read_find", _READ),
    Made("entries.read_continue", "read_continue", _READ),
    Made("entries.read_pull", "read_pull", {"entry_id": 1}),
    Made("entries.test_mode", "get_test_mode", {}),
    Made("entries.set_test_mode", "set_test_mode", {"is_test_mode": True}),
    Made("entries.toggle_test_mode", "toggle_test_mode", {}),
    Made("entries.policies", "list_policies", {"schema": "pkm"}),
    Made(
        "entries.set_policy",
        "set_policy",
        {
            "policy_key": "p",
            "schema": "pkm",
            "change": {"conflict_action": "skip", "update_fields": None, "secondary_match": "always", "enabled": True},
        },
    ),
    Made(
        "entries.import_mbox",
        "import_mbox",
        {
            "mbox_path": "a.mbox",
            "wait": False,
            "batch_size": 500,
            "insert_chunk_size": 100,
            "completion_window": "24h",
            "thread_policy": "email_thread_refs_v1",
        },
    ),
    Made("entries.import_status", "get_import", {"import_id": "i"}),
    Made("entries.enrich_t1", "enrich_text", {**_TEXT, "force": True}),
    Made(
        "entries.enrich_batch",
        "enrich_batch",
        {
            "items": [_TEXT, {"entry_id": 1}],
            "completion_window": "24h",
            "metadata": {"n": 1},
            "force": True,
            "key": "k",
        },
    ),
    Made("entries.enrich_batches", "list_batches", {"schema": "pkm", "include_terminal": True, "limit": 2}),
    Made("entries.enrich_batch_status", "get_batch", {"batch_id": "b", "include_items": True}),
    Made("entries.config", "get_config", {}),
    Made("jobs.plan", "plan_job", {**_JOB, "kind": "k", "payload": {"n": 1}, "max_attempts": 3, "backoff_ms": 0}),
    Made("jobs.plan_batch", "plan_jobs", {"jobs": [_JOB]}),
    Made("jobs.lease", "lease_jobs", {"owner": "me", "ttl_s": 1.5, "kinds": ["k"], "limit": 2}),
    Made("jobs.renew", "renew_job", {"job_id": "j", "ttl_s": 1.5, **_FENCE}),
    Made("jobs.release", "release_job", {"job_id": "j", **_FENCE}),
    Made(
        "jobs.advance",
        "advance_job",
        {"job_id": "j", "to_state": "INDEXED", "allowed_from": ["FINALIZED"], "result": {"n": 1}, **_FENCE},
    ),
    Made("jobs.fail", "fail_job", {"job_id": "j", "error": "why", "retryable": True, "retry_after_s": 1.5, **_FENCE}),
    Made(
        "jobs.settle",
        "settle_jobs",
        {
            "items": [
                {"job_id": "j", "to_state": "INDEXED", "result": 1, **_FENCE},
                {"job_id": "k", "error": {"why": 1}, "retryable": False},
            ]
        },
    ),
    Made("jobs.retry", "retry_job", {"job_id": "j"}),
    Made("jobs.list", "list_jobs", {"state": "LEASED", "kind": "k", "work_id": "w", "held": True, "limit": 2}),
    Made("jobs.page", "list_jobs", {"limit": 2, "cursor": "c"}),
    Made("jobs.get", "get_job", {"job_id": "j"}),
    Made("jobs.stats", "count_jobs", {}),
    Made("jobs.reconcile", "reconcile", {"dry_run": True}),
    Made(
        "ops.begin",
        "begin_op",
        {"job_id": "j", "kind": "K", "op_key": "o", "context": {"n": 1}, "op_class": "keyed", "token": "t", **_FENCE},
    ),
    Made(
        "ops.complete", "complete_op", {"op_key": "o", "token": "t", "result": 1, "advance_to": "FINALIZED", **_FENCE}
    ),
    Made("ops.fail", "fail_op", {"op_key": "o", "token": "t", "error": ["why"], "retryable": False, **_FENCE}),
    *(
        Made("ops.resolve", "resolve_op", {"op_key": "o", **word, **_FENCE})
        for word in ({"result": None}, {"retry": True}, {"error": "why"})
    ),
    Made("ops.get", "get_op", {"op_key": "o"}),
    Made("stats", "get_stats", {}),
    Made("health", "get_health", {}),
    Made("version", "get_version", {}),
]

# The operations that the client does not offer, and why.
NOT_OFFERED = {
    "get_dashboard": "for people: a page",
    "get_dashboard_home": "for people: a page",
    "get_dashboard_page": "for people: a page",
    "get_dashboard_asset": "for people: a part of a page",
    "begin_session": "the dashboard's; programs send a token",
    "get_session": "the dashboard's; programs send a token",
    "end_session": "the dashboard's; programs send a token",
    "list_collections": "the dashboard's; a program knows its collection",
    "list_entries": "the dashboard's; programs search with `read_find`",
    "get_entry": "the dashboard's; entries are read whole by `read_pull`",
    "get_job_graph": "the dashboard's; a job is read with its operations",
    "list_ops": "an operator's list of doubt; a job is read with its operations",
    "watch_live": "the dashboard's stream",
    "get_overview": "the dashboard's; `stats` is for programs",
    "get_settings": "the dashboard's",
    "get_docs": "for people: a page",
    "get_docs_asset": "for people: a part of a page",
    "get_error_page": "for people: a page",
    "list_error_pages": "for people: a page",
    "get_openapi": "the document itself",
    "get_metrics": "for a monitor, and no JSON",
    "get_ready": "for a load balancer; `health` is for programs",
    "ingest_telegram_update": "Telegram calls it",
    "echo": "to try out a key with `post`, which calls it by its address",
    "list_entry_revisions": "the dashboard's; entries are read whole by `read_pull`",
    "list_imports": "the dashboard's; an import is asked for by its id",
    "diff_snapshots": "the dashboard's; both snapshots can be read whole",
    "erase_key": "an operator's word, by `hapax` at the server or the dashboard",
    "erase_subject": "an operator's word, by `hapax` at the server or the dashboard",
    "sweep": "the server does so by itself every hour",
}
# Not calls: what the client is made of.
NO_CALLS = {"close", "audit", "reconcile", "base_url", "transport", "check_token"}


def client_with(seen: list[httpx.Request]) -> Hapax:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.path.startswith("/db/"):
            return httpx.Response(200, json=[{"is_test_mode": True}])
        return httpx.Response(200, json={"items": [], "jobs": [], "next_cursor": None})

    return Hapax(http=httpx.Client(transport=httpx.MockTransport(answer), base_url="http://hapax"))


def method_of(client: Hapax, name: str) -> Callable[..., Any]:
    found: Any = client
    for part in name.split("."):
        found = getattr(found, part)
    method: Callable[..., Any] = found
    return method


def sent_by(made: Made) -> httpx.Request:
    seen: list[httpx.Request] = []
    told = method_of(client_with(seen), made.method)(**made.arguments)
    if isinstance(told, Iterator):
        list(told)
    return seen[0]


def check(value: Any, schema: dict[str, Any]) -> None:
    whole = {**schema, "components": DOCUMENT["components"]}
    faults = sorted(Draft202012Validator(whole).iter_errors(value), key=str)
    assert not faults, [fault.message for fault in faults]


def read_as(text: str, schema: dict[str, Any]) -> Any:
    """A word of a query, as its schema has it."""
    kinds = resolved(schema).get("type", "string")
    is_json = bool({"integer", "boolean", "number"} & set([kinds] if isinstance(kinds, str) else kinds))
    return json.loads(text) if is_json else text


@pytest.mark.parametrize("made", CALLS, ids=lambda made: made.method)
def test_a_call_is_an_operation_of_the_document(made: Made) -> None:
    method, path, operation = operations()[made.operation]
    request = sent_by(made)
    assert request.method == method
    assert path_pattern(path).fullmatch(request.url.raw_path.decode().split("?")[0])
    named = {(one["in"], one["name"].lower()): one for one in operation.get("parameters", [])}
    for name, text in request.url.params.items():
        assert ("query", name) in named, f"the operation has no query {name}"
        schema = named["query", name]["schema"]
        check(read_as(text, schema), schema)
    assert "idempotency-key" not in request.headers or ("header", "idempotency-key") in named
    if "requestBody" in operation:
        check(json.loads(request.content), operation["requestBody"]["content"]["application/json"]["schema"])
    else:
        assert request.content == b""


@pytest.mark.parametrize("made", {made.method: made for made in CALLS}.values(), ids=lambda made: made.method)
def test_the_type_of_an_answer_is_what_the_document_says(made: Made) -> None:
    schema = answer_schema(operations()[made.operation][2])
    assert schema is not None
    hint = get_type_hints(method_of(client_with([]), made.method))["return"]
    if get_origin(hint) in (Iterator, Page):
        hint = list[get_args(hint)[0]]  # type: ignore[misc]
    assert form_of_type(hint) in forms_given(schema)


def forms_given(schema: dict[str, Any]) -> list[Form]:
    """What a method may give of an answer: the whole, the list in it, or the only one in a list."""
    whole = resolved(schema)
    lists = [whole, *(whole.get("properties", {}).get(name, {}) for name in ("items", "jobs"))]
    found = [form_of_schema(schema)]
    for one in lists:
        if one.get("type") == "array":
            found += [form_of_schema(one), form_of_schema(one["items"])]
            found += [form_of_schema(member) for member in resolved(one["items"]).get("properties", {}).values()][:1]
    return found


def test_every_method_is_tried_with_every_argument() -> None:
    client = client_with([])
    groups: dict[str, Any] = {
        name: group
        for name, group in vars(client).items()
        if type(group).__module__.startswith("hapax._sync") and name != "transport"
    }
    names = {f"{group}.{name}" for group in groups for name in dir(groups[group])}
    names |= set(dir(client)) - set(groups) - NO_CALLS
    public = {name for name in names if not name.split(".")[-1].startswith("_")}
    assert public == {made.method for made in CALLS}
    for name in sorted(public):
        tried: set[str] = {argument for made in CALLS if made.method == name for argument in made.arguments}
        assert tried == set(inspect.signature(method_of(client, name)).parameters), name


def test_what_the_client_does_not_offer_is_listed_with_a_reason() -> None:
    called = {made.operation for made in CALLS}
    assert called | set(NOT_OFFERED) == set(operations())
    assert not called & set(NOT_OFFERED)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"token": "t", "status": 200, "storde": False}, "CompleteBody"),
        ({"token": "t"}, "CompleteBody"),
        ({"to_state": "DONE"}, "AdvanceBody"),
        ({"is_test_mode": "yes"}, "SetTestModeBody"),
    ],
)
def test_a_body_that_the_document_does_not_have_would_be_seen(value: Any, schema: str) -> None:
    with pytest.raises(AssertionError):
        check(value, {"$ref": f"#/components/schemas/{schema}"})


def test_an_answer_of_another_type_would_be_seen() -> None:
    schema: Union[dict[str, Any], None] = answer_schema(operations()["get_health"][2])
    assert schema is not None
    assert form_of_type(get_type_hints(Hapax.stats)["return"]) not in forms_given(schema)

"""Canonical JSON: all vectors, what is refused and why, and that the two readers agree."""

from __future__ import annotations

import json
import random
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType
from typing import Any

import pytest

from hapax import CanonicalError, canonical, canonical_json, fingerprint, fingerprint_json, job_key, op_key, uuid7
from hapax._fault import fault_of

from .server import REPOSITORY

VECTORS = REPOSITORY / "spec" / "vectors"


def vectors(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return told


def cases() -> list[tuple[str, str, str, dict[str, str]]]:
    return [
        (case["name"], profile, case["input"], expected)
        for case in vectors("canonical.json")["cases"]
        for profile, expected in case["profiles"].items()
    ]


def crosscheck() -> ModuleType:
    loader = SourceFileLoader("generate", str(REPOSITORY / "sdk" / "crosscheck" / "generate"))
    spec = spec_from_loader("generate", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def refused(call: Any) -> str:
    with pytest.raises(CanonicalError) as caught:
        call()
    return caught.value.reason


@pytest.mark.parametrize(("name", "profile", "text", "expected"), cases(), ids=lambda part: str(part)[:30])
def test_every_vector_gives_its_bytes_and_its_hash_or_is_refused_for_its_reason(
    name: str, profile: str, text: str, expected: dict[str, str]
) -> None:
    if "refused" in expected:
        assert refused(lambda: canonical_json(text, profile)) == expected["refused"]
        return
    assert canonical_json(text, profile).decode("utf-8") == expected["canonical"]
    assert fingerprint_json(text.encode("utf-8"), profile) == expected["hash"]


@pytest.mark.parametrize("case", vectors("keys.json")["job"], ids=lambda case: str(case["name"]))
def test_job_keys_are_those_of_the_vectors(case: dict[str, str]) -> None:
    key = job_key(case["work_id"], case["artifact_id"], case["canonical_url"], kind=case["kind"])
    assert key == case["hash"]


@pytest.mark.parametrize("case", vectors("keys.json")["op"], ids=lambda case: str(case["name"]))
def test_op_keys_are_those_of_the_vectors(case: dict[str, str]) -> None:
    assert op_key(case["kind"], case["job_id"], **json.loads(case["context"])) == case["hash"]


def test_a_value_and_its_text_have_one_form() -> None:
    value = {
        "b": [1, 1.0, -0.0, 9007199254740993, 10**21, 0.1, None, True],
        "a": "é\n\u2028",
        "\U0001f600": (),
        "\ufb33": {},
    }
    assert canonical(value) == canonical_json(json.dumps(value))
    assert canonical(value).startswith(
        '{"a":"é\\n\u2028","b":[1,1,0,9007199254740993,1e+21,0.1,null,true],"😀":'.encode()
    )


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2}, {None: 1}, {"a": {1, 2}}, b"x", object(), 1j, print]
)
def test_what_json_has_not_is_refused(value: Any) -> None:
    assert refused(lambda: canonical(value)) == "not_json"
    assert refused(lambda: fingerprint(value, "js-sorted")) in ("not_json", "syntax")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append({"again": loop})
    assert refused(lambda: canonical(loop)) == "not_json"


def test_values_break_the_same_rules_as_texts() -> None:
    deep: Any = 1
    for _ in range(128):
        deep = [deep]
    assert canonical(deep) == b"[" * 128 + b"1" + b"]" * 128
    assert refused(lambda: canonical([deep])) == "too_deep"
    assert refused(lambda: canonical(["\ud800"])) == "lone_surrogate"
    assert refused(lambda: canonical({"\udfff": 1})) == "lone_surrogate"
    assert refused(lambda: canonical(10**400)) == "number_out_of_range"


def test_an_integer_is_refused_exactly_where_no_double_is_near() -> None:
    first_beyond = 2**1024 - 2**970
    assert refused(lambda: canonical(first_beyond)) == "number_out_of_range"
    assert refused(lambda: canonical_json(str(first_beyond))) == "number_out_of_range"
    last = first_beyond - 1
    assert canonical(last) == str(last).encode() == canonical_json(str(last))


def test_old_profiles_also_take_values() -> None:
    assert canonical({"é": 70.0}, "py-json") == b'{"\\u00e9":70.0}'
    assert canonical({"é": 70.0}, "py-json-utf8") == '{"é":70.0}'.encode()
    assert canonical({"b": (2, 1), "created_at": 0}, "thorbis16") == b'{"b":[1,2]}'
    assert len(fingerprint({}, "thorbis16")) == 16
    assert canonical(float("nan"), "py-json") == b"NaN"
    with pytest.raises(ValueError, match="unknown profile"):
        fingerprint({}, "md5")


def test_a_refusal_says_at_which_byte() -> None:
    with pytest.raises(CanonicalError, match="the same key twice in one object at byte 10") as caught:
        canonical_json('{"é": 1,  "é": 2}'.replace(",  ", ", "))
    assert caught.value.offset == 10


def test_both_readers_agree_on_random_documents() -> None:
    make = crosscheck().Maker(random.Random(7))
    refusals = 0
    for _ in range(1500):
        line: bytes = make.document()
        try:
            canonical_json(line)
            told = None
        except CanonicalError as error:
            told, refusals = error.reason, refusals + 1
        try:
            fault = fault_of(line.decode("utf-8"), "hcj-1")
        except UnicodeDecodeError:
            assert told == "invalid_utf8", line
            continue
        assert told == (fault.reason if fault else None), line
    assert refusals > 10


def test_canonical_bytes_are_their_own_canonical_form() -> None:
    make = crosscheck().Maker(random.Random(8))
    for _ in range(300):
        line: bytes = make.document()
        try:
            once = canonical_json(line)
        except CanonicalError:
            continue
        assert canonical_json(once) == once


def test_new_keys_sort_by_time_and_are_version_seven() -> None:
    early, late = uuid7(1_700_000_000_000), uuid7(1_700_000_000_001)
    assert early < late
    assert early[14] == "7"
    assert early[19] in "89ab"
    assert len({uuid7() for _ in range(1000)}) == 1000

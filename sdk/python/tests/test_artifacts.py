"""The names of the older download ledger, over HTTP."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from hapax import EffectInDoubt, Hapax
from hapax.artifacts import (
    advance_state,
    cleanup_stale_leases,
    cleanup_stale_ops,
    get_current_state,
    get_effect_result,
    job_key,
    lease_next_job,
    op_key,
    plan_job_if_absent,
    reconcile_jobs,
    release_lease,
    renew_lease,
    run_effect,
)


@pytest.fixture
def kind() -> str:
    return f"k{uuid.uuid4().hex[:16]}"


def test_the_usual_loop_goes_through(client: Hapax, kind: str) -> None:
    url = "https://example.org/paper.pdf"
    job_id = plan_job_if_absent(client, work_id="w", artifact_id="a", canonical_url=url, kind=kind)
    assert plan_job_if_absent(client, work_id="w", artifact_id="a", canonical_url=url, kind=kind) == job_id
    job = lease_next_job(client, owner="worker-1", ttl_s=120, kinds=[kind])
    assert job is not None
    assert job["canonical_url"] == url
    runs: list[str] = []

    def effect(name: str, result: Any) -> Any:
        def run() -> Any:
            runs.append(name)
            return result

        return run

    advance_state(client, job_id=job_id, to_state="HEAD_DONE", allowed_from=("LEASED",))
    head = op_key("HEAD", job_id, url=url)
    for _ in range(2):
        told = run_effect(client, job_id=job_id, kind="HEAD", opkey=head, effect_fn=effect("head", {"status": 200}))
        assert told == {"status": 200}
    assert renew_lease(client, job_id=job_id, owner="worker-1")
    advance_state(client, job_id=job_id, to_state="STREAMING", allowed_from=("HEAD_DONE", "RESUME_OK"))
    stream = op_key("STREAM", job_id, url=url, range_start=0)
    run_effect(client, job_id=job_id, kind="STREAM", opkey=stream, effect_fn=effect("stream", {"sha256": "ab"}))
    advance_state(client, job_id=job_id, to_state="FINALIZED", allowed_from=("STREAMING",))
    advance_state(client, job_id=job_id, to_state="INDEXED", allowed_from=("FINALIZED",))
    release_lease(client, job_id=job_id, owner="worker-1")
    assert runs == ["head", "stream"]
    assert get_current_state(client, job_id=job_id) == "INDEXED"
    assert get_effect_result(client, opkey=stream) == {"sha256": "ab"}
    assert get_effect_result(client, opkey="0" * 64) is None
    assert lease_next_job(client, owner="worker-1", kinds=[kind]) is None


def test_a_transition_that_is_not_allowed_is_a_runtime_error(client: Hapax, kind: str) -> None:
    job_id = plan_job_if_absent(client, work_id="w", artifact_id="a", canonical_url="u", kind=kind)
    lease_next_job(client, owner="me", kinds=[kind])
    with pytest.raises(RuntimeError, match="state_transition_denied"):
        advance_state(client, job_id=job_id, to_state="STREAMING", allowed_from=("PLANNED",))
    assert advance_state(client, job_id=job_id, to_state="FAILED", allowed_from=("LEASED",))["state"] == "FAILED"


def test_a_lease_that_is_lost_is_told_and_its_effects_are_in_doubt(client: Hapax, kind: str) -> None:
    job_id = plan_job_if_absent(client, work_id="w", artifact_id="a", canonical_url="u", kind=kind)
    lease_next_job(client, owner="slow", kinds=[kind])
    pay = op_key("PAY", job_id)

    def dies() -> None:
        raise TimeoutError("late")

    with pytest.raises(EffectInDoubt):
        run_effect(client, job_id=job_id, kind="PAY", opkey=pay, effect_fn=dies)
    assert release_lease(client, job_id=job_id, owner="slow")
    taken = lease_next_job(client, owner="quick", kinds=[kind])
    assert taken is not None
    assert not renew_lease(client, job_id=job_id, owner="slow", epoch=taken["epoch"] - 1)
    assert not release_lease(client, job_id=job_id, owner="slow", epoch=taken["epoch"] - 1)
    with pytest.raises(EffectInDoubt):
        run_effect(client, job_id=job_id, kind="PAY", opkey=pay, effect_fn=dies, owner="quick", epoch=taken["epoch"])


def test_the_server_cleans_up_and_says_what_it_cannot_reach(client: Hapax, kind: str) -> None:
    job_id = plan_job_if_absent(client, work_id="w", artifact_id="a", canonical_url="u", kind=kind)
    lease_next_job(client, owner="dead", ttl_s=0.05, kinds=[kind])
    time.sleep(0.1)
    assert reconcile_jobs(client, dry_run=True)["leases_expired"] >= 1
    assert cleanup_stale_leases(client) >= 1
    assert client.jobs.get(job_id)["owner"] is None
    assert cleanup_stale_leases(client) == 0
    assert cleanup_stale_ops(client) == 0
    with pytest.raises(ValueError, match="hapax reconcile --staging"):
        reconcile_jobs(client, "runs/.staging")


def test_keys_are_those_of_the_older_ledger() -> None:
    assert job_key("w-123", "a-456", "https://example.org/paper.pdf").startswith("67f7640f")
    assert op_key("HEAD", "j-1", url="https://example.org/paper.pdf").startswith("92518de7")

-- What lists for people need, so that a page is found and never looked for: keys by their beginning and by their route,
-- jobs by kind and state, the trail by what happened, entries by their source.

-- Keys are of visible ASCII, so their beginning is a range of the index. A row's key and route never change, so settling
-- stays a heap-only update. Every row fulfils the conditions. Each list names the condition of its own index and of no
-- other, so a planner without statistics cannot take another by mistake.
CREATE INDEX idx_idempotency_key ON idempotency_keys (tenant_id, idempotency_key COLLATE "C", id)
    WHERE idempotency_key <> '';
CREATE INDEX idx_idempotency_route ON idempotency_keys (tenant_id, route_pattern, created_at, id)
    WHERE route_pattern <> '';

-- A list of all kinds is put together from the lists of each, as a list of all states is.
CREATE INDEX idx_job_kind ON job (tenant_id, kind, state, seq) WHERE seq > 0;
DROP INDEX idx_job_state;

CREATE INDEX idx_audit_action ON audit_log (tenant_id, action, at, id);

-- The same in both homes. Every row fulfils the condition.
CREATE INDEX idx_entries_source ON pkm.entries (tenant_id, source, created_at, entry_id) WHERE created_at > '-infinity';
CREATE INDEX idx_entries_source ON pkm_test.entries (tenant_id, source, created_at, entry_id) WHERE created_at > '-infinity';

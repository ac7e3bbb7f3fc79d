-- What lists for people need, so that a page is found and never looked for: keys by their beginning and by their route,
-- the trail by what happened, entries by their source.

-- Keys are of visible ASCII, so their beginning is a range of the index. A row's key and route never change.
CREATE INDEX idx_idempotency_key ON idempotency_keys (tenant_id, idempotency_key, id);
CREATE INDEX idx_idempotency_route ON idempotency_keys (tenant_id, route_pattern, created_at, id);

CREATE INDEX idx_audit_action ON audit_log (tenant_id, action, at, id);

CREATE INDEX idx_pkm_entries_source ON pkm_entries (tenant_id, source, created_at, entry_id);
CREATE INDEX idx_pkm_test_entries_source ON pkm_test_entries (tenant_id, source, created_at, entry_id);

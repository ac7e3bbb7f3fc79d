-- What a rerun of an import needs to write nothing, and what people read with SQL of their own.

-- Which messages the row of a thread has merged: one that comes again is skipped. The hash is that of the mail's message
-- id, else of its content. There are never more than the thread has states.
DO $homes$
DECLARE
    home text;
BEGIN
    FOREACH home IN ARRAY ARRAY['pkm', 'pkm_test'] LOOP
        EXECUTE replace($home$
CREATE TABLE {home}.entry_messages (
    tenant_id uuid NOT NULL,
    entry_id bigint NOT NULL,
    message bytea NOT NULL,

    CONSTRAINT entry_messages_pkey PRIMARY KEY (entry_id, message, tenant_id),
    CONSTRAINT entry_messages_message_is_a_sha256 CHECK (octet_length(message) = 32)
);

ALTER TABLE {home}.entry_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE {home}.entry_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY entry_messages_tenant_isolation ON {home}.entry_messages
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
REVOKE ALL ON {home}.entry_messages FROM PUBLIC;
-- What was merged stays merged.
GRANT SELECT, INSERT ON {home}.entry_messages TO hapax_app;
        $home$, '{home}', home);
    END LOOP;
END
$homes$;

-- The audit trail under the name of the time that monitoring asks for, beside the one that the program uses. A view, so
-- that no row is rewritten, and what asks for either time finds its index. Older nodes go on writing through it.
ALTER TABLE audit_log RENAME TO audit_note;

CREATE VIEW audit_log WITH (security_invoker = true) AS
SELECT tenant_id, id, at, at AS created_at, action, actor, key_id, route_pattern, details
  FROM audit_note;

REVOKE ALL ON audit_log FROM PUBLIC;
GRANT SELECT, INSERT ON audit_log TO hapax_app;
GRANT SELECT (tenant_id, id, at), INSERT, DELETE ON audit_log TO hapax_janitor;

-- The JSON that a stored body is; NULL if it is none, or is compressed or sealed. The first byte says which.
CREATE FUNCTION readable_body(body bytea) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF octet_length(body) < 2 OR get_byte(body, 0) <> 0 THEN
        RETURN NULL;
    END IF;
    RETURN convert_from(substr(body, 2), 'UTF8')::jsonb;
EXCEPTION
    WHEN data_exception OR program_limit_exceeded THEN
        RETURN NULL;
END
$$;

-- What was asked and answered under each key, to be read by people.
CREATE VIEW idempotency_requests WITH (security_invoker = true) AS
SELECT tenant_id, id, idempotency_key, route_pattern, state, request_method, request_path, request_content_type,
       readable_body(request_body) AS request, response_status_code, response_headers,
       readable_body(response_body) AS response, created_at, expires_at, completed_at
  FROM idempotency_keys;

REVOKE ALL ON idempotency_requests FROM PUBLIC;
GRANT SELECT ON idempotency_requests TO hapax_app;

-- Empties what has expired, as the sweep of a running server does, and answers how many keys that were: at most 100,000 a
-- call. It runs as the role that sweeps, so only who may become that role gets through, and row level security holds.
CREATE FUNCTION cleanup_expired_idempotency_keys(grace interval DEFAULT INTERVAL '24 hours') RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET role = hapax_janitor
AS $$
DECLARE
    steps_max CONSTANT integer := 100;
    step_max CONSTANT integer := 1000;
    swept integer;
    emptied integer := 0;
BEGIN
    FOR step IN 1 .. steps_max LOOP
        WITH due AS (
            SELECT tenant_id, id
              FROM idempotency_keys
             WHERE purge_at IS NULL AND expires_at <= now()
               AND (state IN ('settled', 'erased') OR (on_lost = 'retry'
                    AND (state = 'in_doubt' OR (state = 'held' AND lease_until <= now()))))
             ORDER BY expires_at
             LIMIT step_max
               FOR UPDATE SKIP LOCKED
        ), gone AS (
            UPDATE idempotency_keys AS k
               SET version = k.version + 1, state = 'expired', purge_at = k.expires_at + greatest(grace, INTERVAL '0'),
                   epoch = NULL, lease_owner = NULL, lease_until = NULL, doubt = NULL,
                   content_hash = '', request_method = '', request_path = '', request_content_type = '',
                   request_body = NULL, request_headers = NULL, subject = NULL,
                   response_status_code = NULL, response_headers = NULL, response_body = NULL, completed_at = NULL
              FROM due AS d
             WHERE k.tenant_id = d.tenant_id AND k.id = d.id
            RETURNING k.tenant_id
        ), noted AS (
            INSERT INTO audit_note (tenant_id, at, action, details)
            SELECT tenant_id, now(), 'cleanup_idempotency_keys',
                   jsonb_build_object('deleted_count', count(*), 'retired', 0, 'forgotten', 0)
              FROM gone
             GROUP BY tenant_id
        )
        SELECT count(*) INTO swept FROM gone;
        emptied := emptied + swept;
        EXIT WHEN swept < step_max;
    END LOOP;
    RETURN emptied;
END
$$;

REVOKE ALL ON FUNCTION cleanup_expired_idempotency_keys(interval) FROM PUBLIC;

-- Whatever path the caller searches, these are the tables of this ledger, and the functions are PostgreSQL's own.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION cleanup_expired_idempotency_keys(interval) SET search_path = pg_catalog, %I, pg_temp',
                   current_schema());
END
$$;

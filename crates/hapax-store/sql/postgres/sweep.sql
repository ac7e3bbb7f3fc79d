-- One step of cleaning up for all tenants: empties records whose time is over, forgets those whose grace is over,
-- together at most $3, and notes it for each tenant. Passes by what somebody else is moving. Returns how many expired,
-- how many had been given back, and how many are forgotten.
-- IS TRUE keeps the planner from the indexes on times: it would look through all that is due for every step.
WITH due AS (
    SELECT tenant_id, id
      FROM idempotency_keys
     WHERE purge_at IS NULL AND expires_at <= $1::timestamptz
       AND (state IN ('settled', 'free', 'erased')
            OR (on_lost = 'retry' AND (state = 'in_doubt' OR (state = 'held' AND lease_until <= $1))))
     ORDER BY expires_at
     LIMIT $3::bigint
       FOR UPDATE SKIP LOCKED
), emptied AS (
    UPDATE idempotency_keys AS k
       SET version = k.version + 1,
           state = CASE k.state WHEN 'free' THEN 'free' ELSE 'expired' END,
           purge_at = k.expires_at + $2::bigint * INTERVAL '1 millisecond',
           epoch = NULL, lease_owner = NULL, lease_until = NULL, doubt = NULL,
           content_hash = '', request_method = '', request_path = '', request_content_type = '',
           request_body = NULL, request_headers = NULL, subject = NULL, request_masks = NULL,
           response_status_code = NULL, response_headers = NULL, response_body = NULL, completed_at = NULL
      FROM due AS d
     WHERE k.id = ANY(ARRAY(SELECT id FROM due)) AND k.tenant_id = d.tenant_id AND k.id = d.id
       AND (k.purge_at IS NULL AND k.expires_at <= $1) IS TRUE
    RETURNING k.tenant_id, k.state
), gone AS (
    SELECT tenant_id, id
      FROM idempotency_keys
     WHERE purge_at <= $1
     ORDER BY purge_at
     LIMIT greatest($3 - (SELECT count(*) FROM due), 0)
       FOR UPDATE SKIP LOCKED
), forgotten AS (
    DELETE FROM idempotency_keys AS k
     USING gone AS g
     WHERE k.id = ANY(ARRAY(SELECT id FROM gone)) AND k.tenant_id = g.tenant_id AND k.id = g.id
       AND (k.purge_at <= $1) IS TRUE
    RETURNING k.tenant_id
), touched AS (
    SELECT tenant_id, state FROM emptied
     UNION ALL
    SELECT tenant_id, 'forgotten' FROM forgotten
), noted AS (
    INSERT INTO audit_note (tenant_id, at, action, details)
    SELECT tenant_id, $1, 'cleanup_idempotency_keys', jsonb_build_object(
               'deleted_count', count(*) FILTER (WHERE state = 'expired'),
               'retired', count(*) FILTER (WHERE state = 'free'),
               'forgotten', count(*) FILTER (WHERE state = 'forgotten')
           )
      FROM touched
     GROUP BY tenant_id
)
SELECT (SELECT count(*) FROM emptied WHERE state = 'expired'), (SELECT count(*) FROM emptied WHERE state = 'free'),
       (SELECT count(*) FROM forgotten);

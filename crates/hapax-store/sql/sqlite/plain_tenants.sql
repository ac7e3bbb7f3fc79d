-- Tenants of whom something is stored that a vault would have sealed, each once.
WITH RECURSIVE of_key (tenant_id) AS (
    SELECT min(tenant_id) FROM idempotency_keys
     UNION ALL
    SELECT (SELECT min(tenant_id) FROM idempotency_keys WHERE tenant_id > k.tenant_id) FROM of_key AS k
     WHERE k.tenant_id IS NOT NULL
), of_snapshot (tenant_id) AS (
    SELECT min(tenant_id) FROM snapshot
     UNION ALL
    SELECT (SELECT min(tenant_id) FROM snapshot WHERE tenant_id > s.tenant_id) FROM of_snapshot AS s
     WHERE s.tenant_id IS NOT NULL
), of_job (tenant_id) AS (
    SELECT min(tenant_id) FROM job
     UNION ALL
    SELECT (SELECT min(tenant_id) FROM job WHERE tenant_id > j.tenant_id) FROM of_job AS j
     WHERE j.tenant_id IS NOT NULL
)
SELECT tenant_id FROM of_key WHERE tenant_id IS NOT NULL
 UNION
SELECT tenant_id FROM of_snapshot WHERE tenant_id IS NOT NULL
 UNION
SELECT tenant_id FROM of_job WHERE tenant_id IS NOT NULL;

-- Tenants of whom something is stored that a vault would have sealed, each once. Keys are walked from tenant to tenant.
WITH RECURSIVE of_key (tenant_id) AS (
    (SELECT tenant_id FROM idempotency_keys WHERE created_at > '-infinity' ORDER BY tenant_id LIMIT 1)
     UNION ALL
    SELECT (SELECT i.tenant_id
              FROM idempotency_keys AS i
             WHERE i.tenant_id > k.tenant_id AND i.created_at > '-infinity'
             ORDER BY i.tenant_id
             LIMIT 1)
      FROM of_key AS k
     WHERE k.tenant_id IS NOT NULL
)
SELECT tenant_id FROM of_key WHERE tenant_id IS NOT NULL
 UNION
SELECT tenant_id FROM snapshot
 UNION
SELECT tenant_id FROM job;

-- Gives a tenant the policies to start with, unless somebody did at the same moment.
INSERT INTO {schema}.idempotency_policies (tenant_id, policy_key, source, content_type, conflict_action, secondary_match)
SELECT $1::uuid, n.policy_key, n.source, n.content_type, n.conflict_action, n.secondary_match
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
           AS n (policy_key, source, content_type, conflict_action, secondary_match)
    ON CONFLICT (tenant_id, policy_key) DO NOTHING;

-- Idempotency usage by tenant
SELECT 
  tenant_id,
  route_pattern,
  COUNT(*) as total_keys,
  COUNT(CASE WHEN completed_at IS NOT NULL THEN 1 END) as completed,
  AVG(EXTRACT(EPOCH FROM (completed_at - created_at))) as avg_processing_time
FROM idempotency_keys 
WHERE created_at > NOW() - INTERVAL '24 hours'
GROUP BY tenant_id, route_pattern
ORDER BY total_keys DESC;

-- Conflict detection
SELECT 
  DATE_TRUNC('hour', created_at) as hour,
  COUNT(*) as conflicts
FROM audit_log 
WHERE action = 'idempotency_conflict'
  AND created_at > NOW() - INTERVAL '24 hours'
GROUP BY hour
ORDER BY hour;

-- TTL effectiveness
SELECT 
  route_pattern,
  COUNT(*) as total_keys,
  COUNT(CASE WHEN expires_at < NOW() THEN 1 END) as expired,
  AVG(EXTRACT(EPOCH FROM (expires_at - created_at))) as avg_ttl_seconds
FROM idempotency_keys
GROUP BY route_pattern;

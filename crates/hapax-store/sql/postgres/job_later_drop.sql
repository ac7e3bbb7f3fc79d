-- Drops those of these rows that no job belongs to any more.
DELETE FROM job_later WHERE tenant_id = $1::uuid AND number = ANY($2::bigint[]) AND waiting <= 0;

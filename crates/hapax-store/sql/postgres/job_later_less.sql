-- So many jobs belong no more to each of these rows. Locked in the order of their numbers, so that no two transactions wait
-- for each other.
WITH locked AS MATERIALIZED (
    SELECT number FROM job_later WHERE tenant_id = $1::uuid AND number = ANY($2::bigint[]) ORDER BY number FOR UPDATE
)
UPDATE job_later AS l
   SET waiting = l.waiting - n.gone
  FROM unnest($2::bigint[], $3::bigint[]) AS n (number, gone)
 WHERE l.tenant_id = $1 AND l.number = ANY(ARRAY(SELECT number FROM locked)) AND l.number = n.number;

-- Has these jobs looked at later. The jobs of each row are a part of all that are given.
INSERT INTO job_later (number, tenant_id, place, kind, at, held, waiting, jobs)
SELECT n.number, $1::uuid, n.place, n.kind, n.at, n.held, n.last - n.first + 1, ($9::bigint[])[n.first:n.last]
  FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[])
       AS n (number, place, kind, at, held, first, last);

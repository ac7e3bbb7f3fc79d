-- A page of a batch's items after the given one, in their order, of one status if one is given. With their texts, if
-- those are asked for; then it ends after the item that brings them over the given bytes.
WITH page AS MATERIALIZED (
    SELECT p.item_id,
           sum(p.bytes) OVER (ORDER BY p.item_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
      FROM (SELECT t.item_id,
                   CASE WHEN $6::boolean THEN coalesce(
                       t.request_bytes,
                       (SELECT coalesce(octet_length(e.title), 0) + coalesce(octet_length(e.author), 0)
                               + coalesce(octet_length(e.content_type), 0) + coalesce(octet_length(e.clean_text), 0)
                          FROM {schema}.entries AS e
                         WHERE e.tenant_id = $1 AND e.entry_id = t.entry_id)
                   ) END AS bytes
              FROM {schema}.t1_batch_items AS t
             WHERE t.tenant_id = $1::uuid AND t.batch_id = $2::uuid AND t.item_id > $3::bigint
               AND ($4::text IS NULL OR t.status = $4)
             ORDER BY t.item_id
             LIMIT $5::bigint) AS p
)
SELECT t.item_id, t.entry_id, t.content_hash, t.status,
       CASE WHEN $6 THEN coalesce(
           t.request,
           (SELECT jsonb_build_object('title', e.title, 'author', e.author, 'content_type', e.content_type,
                                      'clean_text', coalesce(e.clean_text, ''))
              FROM {schema}.entries AS e
             WHERE e.tenant_id = $1 AND e.entry_id = t.entry_id)
       )::text END,
       t.raw, t.result::text, t.error, t.updated_at, t.missed_in
  FROM {schema}.t1_batch_items AS t
 WHERE t.tenant_id = $1 AND t.batch_id = $2
   AND t.item_id = ANY(ARRAY(SELECT p.item_id FROM page AS p WHERE coalesce(p.bytes_before, 0) <= $7::bigint))
 ORDER BY t.item_id;

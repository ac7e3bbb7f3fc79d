-- The next candidates of an import, with the hash of their text as it is, unless that was queued or enriched before.
SELECT t.item_id,
       (SELECT e.text_hash
          FROM {schema}.entries AS e
         WHERE e.tenant_id = $1 AND e.entry_id = t.entry_id
           AND encode(e.text_hash, 'hex') IS DISTINCT FROM e.enriched_hash
           AND (SELECT q.item_id
                  FROM {schema}.t1_batch_items AS q
                 WHERE q.tenant_id = $1 AND q.entry_id = t.entry_id AND q.content_hash = e.text_hash
                   AND q.status <> 'candidate'
                 LIMIT 1) IS NULL)
  FROM {schema}.t1_batch_items AS t
 WHERE t.tenant_id = $1::uuid AND t.import_id = $2::uuid AND t.status = 'candidate' AND t.item_id > 0
 ORDER BY t.item_id
 LIMIT $3::bigint;

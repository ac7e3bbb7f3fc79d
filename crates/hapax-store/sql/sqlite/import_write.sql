-- Writes how far an import is.
UPDATE imports
   SET status = ?3, step = ?4, cursor_index = ?5, cursor_offset = ?6, cursor_mark = ?7, total_messages = ?8,
       normalized_ok = ?9, normalize_errors = ?10, inserted = ?11, updated = ?12, skipped = ?13, insert_errors = ?14,
       tier1_candidates = ?15, tier1_enqueued_items = ?16, errors = ?17, error = ?18, updated_at = ?19
 WHERE tenant_id = ?1 AND import_id = ?2;

-- Changes the state of a batch, if nobody did since this version.
UPDATE {schema}.t1_batches AS b
   SET version = b.version + 1, status = $4::text, attempt = $5::bigint, failures = $6::bigint,
       next_at = $7::timestamptz, model = $8::text, provider_batch_id = $9::text, provider_status = $10::text,
       input_file_id = $11::text, output_file_id = $12::text, error_file_id = $13::text, error = $14::text,
       updated_at = greatest(b.updated_at, $15::timestamptz)
 WHERE b.tenant_id = $1::uuid AND b.batch_id = $2::uuid AND b.version = $3::bigint
RETURNING b.version;

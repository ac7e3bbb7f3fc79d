-- Inserts many jobs whose unique keys are new.
INSERT INTO river_job (args, kind, max_attempts, unique_key, unique_states)
SELECT args, 'nothing', 25, unique_key, B'11111111'
  FROM unnest($1::jsonb[], $2::bytea[]) AS n (args, unique_key)
    ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL DO NOTHING;

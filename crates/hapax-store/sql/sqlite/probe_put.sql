-- Takes as much room as a claim may need, to find out whether there is any.
INSERT INTO _meta (key, value) VALUES ('write_probe', hex(randomblob(32768)))
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- What a cache of outcomes that nodes share needs: which ledger its entries are of, and how often an outcome was taken
-- back, by anyone.
INSERT INTO _meta (key, value) VALUES ('ledger_id', gen_random_uuid()::text);

CREATE TABLE idempotency_purge (
    one smallint NOT NULL DEFAULT 1,
    count bigint NOT NULL DEFAULT 0,
    -- Until when some node may answer by a count it has read. Whoever takes an outcome back waits for it to look again.
    watched_until timestamptz NOT NULL DEFAULT '-infinity',

    CONSTRAINT idempotency_purge_pkey PRIMARY KEY (one),
    CONSTRAINT there_is_one CHECK (one = 1)
);
INSERT INTO idempotency_purge DEFAULT VALUES;

CREATE FUNCTION count_purge() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS
$$
BEGIN
    UPDATE idempotency_purge SET count = count + 1;
    RETURN NULL;
END
$$;

-- At the commit, so that this row is always the last that is locked: nobody who holds it waits for a key. What expired
-- needs no count, since its time tells.
CREATE CONSTRAINT TRIGGER count_taken_back AFTER UPDATE ON idempotency_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state = 'settled' AND NEW.state IN ('free', 'erased', 'settled'))
    EXECUTE FUNCTION count_purge();
CREATE CONSTRAINT TRIGGER count_deleted AFTER DELETE ON idempotency_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state = 'settled')
    EXECUTE FUNCTION count_purge();

REVOKE ALL ON idempotency_purge FROM PUBLIC;
GRANT SELECT, UPDATE ON idempotency_purge TO hapax_app, hapax_janitor;

-- What every node of this ledger knows and nothing else does: it marks what is kept elsewhere, so that nobody plants an answer
-- there. Two random ids are 244 random bits.
CREATE TABLE shared_secret (
    name text NOT NULL,
    secret bytea NOT NULL,

    CONSTRAINT shared_secret_pkey PRIMARY KEY (name),
    CONSTRAINT secret_is_long CHECK (octet_length(secret) = 32)
);

INSERT INTO shared_secret (name, secret)
VALUES ('mark', sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

REVOKE ALL ON shared_secret FROM PUBLIC;
GRANT SELECT ON shared_secret TO hapax_app;

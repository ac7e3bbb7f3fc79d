-- Notes the moves of one commit down.
INSERT INTO idempotency_backlog (writer, moves) VALUES (?1, ?2);

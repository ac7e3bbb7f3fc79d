-- Whether the session with this id was ended.
SELECT EXISTS (SELECT 1 FROM ended_session WHERE id = $1::uuid);

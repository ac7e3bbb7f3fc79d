-- Gives the room of the probe back.
DELETE FROM _meta WHERE key = 'write_probe';

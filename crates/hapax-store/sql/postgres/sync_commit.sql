-- An acknowledged write is on disk, whatever the role's default says.
SELECT set_config('synchronous_commit', 'on', false)
 WHERE current_setting('synchronous_commit') = 'off';

-- Shows that whoever leads lives, and changes nothing.
SELECT 1;

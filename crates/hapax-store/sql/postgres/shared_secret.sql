-- The secret that marks what is kept elsewhere.
SELECT secret FROM shared_secret WHERE name = 'mark';

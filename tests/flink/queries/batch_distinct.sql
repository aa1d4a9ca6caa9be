-- configurations: some
SET 'execution.runtime-mode' = 'batch';
SELECT DISTINCT k, g, f IS NULL AS h FROM events;

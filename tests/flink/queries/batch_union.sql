-- configurations: some
SET 'execution.runtime-mode' = 'batch';
SELECT k, g FROM timely UNION SELECT k, g FROM acts;

-- configurations: some
SET 'execution.runtime-mode' = 'batch';
SELECT id, g FROM timely WHERE g NOT IN (SELECT g FROM acts WHERE g IS NOT NULL) AND k IN (SELECT k FROM acts WHERE w > 35);

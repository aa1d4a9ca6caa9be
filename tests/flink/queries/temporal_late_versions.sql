-- varies: which of two inputs Flink reads first decides which rows are late
-- differs: how far the other file has been read when a late row comes decides in Flink what of its versions is kept
SELECT f.id, f.k, q.price FROM fills AS f LEFT JOIN quotes FOR SYSTEM_TIME AS OF f.ts AS q ON f.k = q.k;

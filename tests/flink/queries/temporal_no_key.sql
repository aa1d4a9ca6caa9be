CREATE TABLE nopk (k INT, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/prices.jsonl', 'format' = 'json');
SELECT o.id, o.k, p.price FROM orders AS o  JOIN nopk FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

CREATE TABLE pk2 (k INT, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, PRIMARY KEY (k, price) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${DATA}/prices.jsonl', 'format' = 'json');
SELECT o.id, o.k, p.price FROM orders AS o  JOIN pk2 FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

CREATE TABLE nowm (k INT, price INT, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${DATA}/prices.jsonl', 'format' = 'json');
SELECT o.id, o.k, p.price FROM orders AS o  JOIN nowm FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

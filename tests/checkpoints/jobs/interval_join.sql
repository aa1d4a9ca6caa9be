CREATE TABLE rows (id BIGINT, auction BIGINT, price BIGINT, category BIGINT, title STRING) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT a.id, b.auction, b.price, a.category, c.title FROM auction AS a JOIN bid AS b ON a.id = b.auction AND b.price > 1000000 AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '2' SECOND
JOIN categories AS c ON a.category = c.category;

CREATE TABLE rows (name STRING, seller BIGINT, items BIGINT, start TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT p.name, p.id, a.items, p.window_start FROM
    (SELECT id, name, window_start, window_end FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY id, name, window_start, window_end) AS p
JOIN (SELECT seller, COUNT(*) AS items, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY seller, window_start, window_end) AS a
ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;

CREATE TABLE rows (auction BIGINT, bids BIGINT, items BIGINT, start TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT b.auction, b.bids, a.items, b.window_start FROM
    (SELECT auction, COUNT(*) AS bids, window_start, window_end FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY auction, window_start, window_end) AS b
LEFT JOIN (SELECT id, COUNT(*) AS items, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY id, window_start, window_end) AS a
ON b.auction = a.id AND b.window_start = a.window_start AND b.window_end = a.window_end;

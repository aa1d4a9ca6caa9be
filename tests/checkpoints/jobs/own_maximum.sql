CREATE TABLE rows (auction BIGINT, bids BIGINT, start TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT b.auction, b.bids, b.window_start FROM
    (SELECT auction, COUNT(*) AS bids, window_start, window_end FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND)) GROUP BY auction, window_start, window_end) AS b
JOIN (SELECT MAX(bids) AS most, window_start, window_end FROM
    (SELECT COUNT(*) AS bids, window_start, window_end FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND)) GROUP BY auction, window_start, window_end)
    GROUP BY window_start, window_end) AS m
ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.bids >= m.most;

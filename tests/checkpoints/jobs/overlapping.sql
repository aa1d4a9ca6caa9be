CREATE TABLE rows (window_end TIMESTAMP(3), bidder BIGINT, n BIGINT, total BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'json');
CREATE TABLE steps (window_end TIMESTAMP(3), n BIGINT, total BIGINT) WITH ('connector' = 'filesystem', 'path' = 'steps', 'format' = 'json');
EXECUTE STATEMENT SET BEGIN
INSERT INTO rows SELECT window_end, MOD(bidder, 50), COUNT(*), SUM(price) FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '0.5' SECOND, INTERVAL '2' SECOND))
GROUP BY MOD(bidder, 50), window_start, window_end;
INSERT INTO steps SELECT window_end, COUNT(*), SUM(price) FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '0.5' SECOND, INTERVAL '2' SECOND))
GROUP BY window_start, window_end;
END;

-- configurations: some
WITH e AS (SELECT id, k, v, ts FROM events WHERE v IS NOT NULL), w AS (SELECT *  FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '3' SECOND))), n AS (SELECT window_start, window_end, k, COUNT(*) AS n FROM w GROUP BY window_start, window_end, k) SELECT window_start, MAX(n) AS most, MIN(n) AS least, COUNT(*) AS keys FROM n GROUP BY window_start, window_end;

-- configurations: some
SELECT k, g, window_start, window_end, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(v) AS a, MIN(g) AS mg, MAX(d) AS md, SUM(p) AS sp, AVG(p) AS ap FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, g, window_start, window_end;

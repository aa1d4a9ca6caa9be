-- configurations: some
SELECT a.k, a.s, a.window_end FROM (SELECT k, window_end, SUM(v2) AS s FROM (SELECT k, v * 2 AS v2, window_start, window_end FROM (SELECT * FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) WHERE k IS NOT NULL) WHERE v > -10) GROUP BY k, window_start, window_end) AS a WHERE a.s > 50;

-- configurations: some
SELECT window_start, window_end, COUNT(*) AS n, AVG(w) AS a FROM TABLE(SESSION(TABLE acts, DESCRIPTOR(ts), INTERVAL '0.25' SECOND)) GROUP BY window_start, window_end;

-- configurations: some
SELECT window_start, window_end, k, f, COUNT(*) AS n, AVG(d) AS m FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '12' SECOND)) GROUP BY window_start, window_end, CUBE (k, f);

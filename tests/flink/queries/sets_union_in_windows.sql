-- configurations: some
SELECT window_start, window_end, k FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end, k UNION SELECT window_start, window_end, k FROM TABLE(TUMBLE(TABLE acts, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end, k;

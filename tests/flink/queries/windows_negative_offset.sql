-- configurations: some
SELECT id, window_start, window_end, window_time FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '-1.5' SECOND)) WHERE k = 1;

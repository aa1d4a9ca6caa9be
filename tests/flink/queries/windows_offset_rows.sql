-- configurations: some
SELECT id, k, window_start, window_end FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '9' SECOND, INTERVAL '1' SECOND)) WHERE v > 30;

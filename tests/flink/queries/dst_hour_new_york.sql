-- zone: America/New_York
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE dst, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;

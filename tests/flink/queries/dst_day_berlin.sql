-- zone: Europe/Berlin
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE dst, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;

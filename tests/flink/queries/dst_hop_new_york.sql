-- zone: America/New_York
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE dst, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end;

-- configurations: some
SELECT window_start, x, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE((SELECT events.ts, events.v, u.x FROM events CROSS JOIN UNNEST(events.a) AS u (x)), DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, x;

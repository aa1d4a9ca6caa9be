-- configurations: some
SELECT window_start, k, id, v, r FROM (SELECT id, k, v, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v NULLS FIRST, id DESC) AS r FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '8' SECOND))) WHERE r <= 2;

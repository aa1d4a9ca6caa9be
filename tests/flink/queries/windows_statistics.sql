-- configurations: some
-- differs: of whole numbers these are DOUBLE here; Flink makes whole numbers of them
SELECT window_start, STDDEV_POP(v) AS a, STDDEV_SAMP(v) AS b, VAR_POP(v) AS c, VAR_SAMP(v) AS d FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '8' SECOND)) GROUP BY window_start, window_end;

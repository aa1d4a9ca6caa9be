-- configurations: some
SELECT STDDEV_POP(CAST(v AS DOUBLE)) AS a, window_start, STDDEV_SAMP(CAST(v AS DOUBLE)) AS b, VAR_POP(CAST(v AS DOUBLE)) AS c, VAR_SAMP(d) AS d FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '8' SECOND)) GROUP BY window_start, window_end;

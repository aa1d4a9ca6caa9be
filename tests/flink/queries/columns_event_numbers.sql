-- configurations: some
SELECT id, p * 3 AS a, p / 7 AS b, p + v AS c, MOD(v, 7) AS h, v / 3 AS i, d * v AS j, ROUND(p, 1) AS l, FLOOR(p) AS m, CEIL(d) AS o, ABS(v) AS q, SIGN(p) AS s, POWER(d, 2) AS t, TRUNCATE(p, 1) AS u, CAST(p AS INT) AS w, -p AS x, ROUND(d) AS y FROM timely;

-- configurations: some
SELECT o.id, CASE WHEN p.price IS NULL THEN 'none' WHEN p.price > 250 THEN 'dear' ELSE 'cheap' END AS c FROM (SELECT id, k, ts FROM timely WHERE v > 0) AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

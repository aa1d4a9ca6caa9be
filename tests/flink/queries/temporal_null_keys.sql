SELECT o.id, o.k, p.price FROM (SELECT id, NULLIF(k, 2) AS k, ts FROM orders) AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

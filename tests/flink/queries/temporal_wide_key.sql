SELECT o.id, p.price FROM (SELECT id, CAST(k AS BIGINT) AS k, ts FROM orders) AS o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

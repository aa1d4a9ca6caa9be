SELECT o.id, o.k, p.price, r.price AS price2 FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS r ON o.id = r.k;

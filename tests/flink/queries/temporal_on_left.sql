SELECT o.id, o.k, p.price FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k AND o.id > 10;

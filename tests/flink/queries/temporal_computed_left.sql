SELECT o.id, o.k, p.price FROM orders AS o  JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k + 1 = p.k;

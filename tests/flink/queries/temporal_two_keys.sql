SELECT o.id, o.k, p.price FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k AND MOD(o.id, 2) = MOD(p.price / 10, 2);

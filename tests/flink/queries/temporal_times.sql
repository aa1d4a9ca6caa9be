SELECT o.id, o.ts, p.ts AS version FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

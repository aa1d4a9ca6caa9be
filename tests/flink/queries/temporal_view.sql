CREATE VIEW pv AS SELECT ts, price * 2 AS price, k FROM prices;
SELECT o.id, o.k, p.price FROM orders AS o LEFT JOIN pv FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

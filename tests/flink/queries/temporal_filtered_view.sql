CREATE VIEW pv AS SELECT * FROM prices WHERE price > 250;
SELECT o.id, o.k, p.price FROM orders AS o  JOIN pv FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k;

SELECT f.id, f.pr, t.price, t.ts FROM (SELECT id, (MOD(id, 5) + 1) * 100 + MOD(id, 3) AS pr, ts FROM fills) AS f LEFT JOIN ticks FOR SYSTEM_TIME AS OF f.ts AS t ON f.pr = t.price;

SELECT f.id, f.q, t.price FROM (SELECT id, (MOD(id, 5) + 1) * 100 + MOD(id, 3) AS pr, q, ts FROM fills) AS f JOIN ticks FOR SYSTEM_TIME AS OF f.ts AS t ON f.pr = t.price AND (f.q > 40 OR t.k = 3);

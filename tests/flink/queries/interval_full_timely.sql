SELECT x.id, y.price FROM trades AS x FULL JOIN markets AS y ON x.k = y.k AND x.m = y.m AND x.ts BETWEEN y.ts + INTERVAL '0.1' SECOND AND y.ts + INTERVAL '2' SECOND;

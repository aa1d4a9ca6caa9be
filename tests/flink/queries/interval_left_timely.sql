SELECT x.id, y.price FROM trades AS x LEFT JOIN markets AS y ON x.k = y.k AND x.ts BETWEEN y.ts - INTERVAL '1' SECOND AND y.ts + INTERVAL '2' SECOND AND x.q > 20;

SELECT x.id, y.price FROM trades AS x RIGHT JOIN markets AS y ON x.k = y.k AND y.ts > x.ts + INTERVAL '0.5' SECOND AND y.ts < x.ts + INTERVAL '1' SECOND;

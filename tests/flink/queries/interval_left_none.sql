SELECT x.id, y.id AS yid FROM fills AS x LEFT JOIN fills AS y ON x.id = y.id + 1000 AND x.ts BETWEEN y.ts - INTERVAL '1' SECOND AND y.ts + INTERVAL '1' SECOND;

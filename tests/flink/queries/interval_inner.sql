SELECT x.id, y.id AS yid FROM l AS x JOIN l AS y ON x.id = y.id AND x.ts BETWEEN y.ts - INTERVAL '1' SECOND AND y.ts + INTERVAL '1' SECOND;

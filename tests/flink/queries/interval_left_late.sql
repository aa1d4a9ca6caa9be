-- differs: late rows meet rows that Flink keeps longer because it cleans up now and then
SELECT x.id, y.price FROM fills AS x LEFT JOIN quotes AS y ON x.k = y.k AND x.ts BETWEEN y.ts - INTERVAL '1' SECOND AND y.ts + INTERVAL '1' SECOND;

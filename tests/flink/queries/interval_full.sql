-- varies: which of two inputs Flink reads first decides which rows are late
-- differs: of two late rows of one row of the source, the left one comes first here; in Flink, whichever of its inputs is read first
SELECT x.id, y.id AS yid FROM l AS x FULL JOIN l AS y ON x.id = y.id AND x.ts BETWEEN y.ts AND y.ts + INTERVAL '0.2' SECOND;

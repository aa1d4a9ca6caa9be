CREATE TABLE rows (id BIGINT, name STRING, item STRING) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'json');
INSERT INTO rows SELECT a.id, p.name, a.item FROM auction AS a JOIN person AS p ON a.seller = p.id;

CREATE TABLE bid (auction BIGINT, bidder BIGINT, price DECIMAL(10, 2), channel STRING, ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'bids.jsonl', 'format' = 'json');

CREATE TABLE users (id BIGINT, name STRING, city STRING, extra STRING)
WITH ('connector' = 'filesystem', 'path' = 'users.csv', 'format' = 'csv');

CREATE TABLE clicks (user_id BIGINT, url STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen', 'rows-per-second' = '10');

CREATE TABLE orders (id BIGINT, user_id BIGINT, amount DOUBLE, ordered TIMESTAMP(3),
    WATERMARK FOR ordered AS ordered - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen', 'rows-per-second' = '10');

CREATE TABLE logs (level STRING, message STRING) WITH ('connector' = 'datagen', 'rows-per-second' = '10');

CREATE TABLE totals (bidder BIGINT, total DECIMAL(10, 2)) WITH ('connector' = 'print');

-- The same events in one file per kind. Times are epoch milliseconds.
CREATE TABLE person_file (
    id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, `dateTime` BIGINT, extra STRING,
    ts AS CAST(TO_TIMESTAMP_LTZ(`dateTime`, 3) AS TIMESTAMP(3)),
    WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/person.jsonl.zst', 'format' = 'json');

CREATE TABLE auction_file (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` BIGINT, expires BIGINT, seller BIGINT, category BIGINT, extra STRING,
    ts AS CAST(TO_TIMESTAMP_LTZ(`dateTime`, 3) AS TIMESTAMP(3)),
    WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/auction.jsonl.zst', 'format' = 'json');

CREATE TABLE bid_file (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING,
    ts AS CAST(TO_TIMESTAMP_LTZ(`dateTime`, 3) AS TIMESTAMP(3)),
    WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/bid.jsonl.zst', 'format' = 'json');

CREATE VIEW person AS SELECT id, name, emailAddress, creditCard, city, state, ts AS `dateTime`, extra FROM person_file;
CREATE VIEW auction AS
SELECT id, itemName, description, initialBid, reserve, ts AS `dateTime`, CAST(TO_TIMESTAMP_LTZ(expires, 3) AS TIMESTAMP(3)) AS expires, seller, category, extra
FROM auction_file;
CREATE VIEW bid AS SELECT auction, bidder, price, channel, url, ts AS `dateTime`, extra FROM bid_file;

CREATE TABLE side_input (key BIGINT, `value` STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/side_input.csv', 'format' = 'csv');

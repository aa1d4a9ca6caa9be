SET 'execution.runtime-mode' = 'streaming';
SET 'execution.checkpointing.interval' = '100 ms';
SET 'pipeline.beat' = '100 ms';
CREATE TABLE rows (price BIGINT, n BIGINT, most BIGINT, PRIMARY KEY (price) NOT ENFORCED)
    WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'debezium-json');
CREATE TABLE best (kind BIGINT, price BIGINT, bidder BIGINT, place BIGINT) WITH ('connector' = 'filesystem', 'path' = 'best', 'format' = 'debezium-json');
CREATE TABLE items (auction BIGINT, item STRING, price BIGINT) WITH ('connector' = 'filesystem', 'path' = 'items', 'format' = 'debezium-json');
EXECUTE STATEMENT SET BEGIN
INSERT INTO rows SELECT price, COUNT(*), MAX(bidder) FROM bid GROUP BY price;
INSERT INTO best SELECT kind, price, bidder, place FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY kind ORDER BY price DESC, bidder, auction) AS place FROM (SELECT MOD(price, 1000) AS kind, * FROM bid)) WHERE place <= 2;
INSERT INTO items SELECT b.auction, b.item, c.n FROM (SELECT auction, CAST(bidder AS STRING) AS item, bidder, MAX(price) AS price FROM bid GROUP BY auction, bidder) AS b
    LEFT JOIN (SELECT bidder, COUNT(*) AS n FROM bid WHERE MOD(price, 97) = 0 GROUP BY bidder) AS c ON b.bidder = c.bidder;
END;

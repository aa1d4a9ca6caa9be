SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.beat' = '300 ms';
CREATE TABLE rows (auction BIGINT, n BIGINT, most BIGINT, bidders BIGINT, PRIMARY KEY (auction) NOT ENFORCED)
    WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'debezium-json');
CREATE TABLE best (channel STRING, auction BIGINT, price BIGINT, place BIGINT) WITH ('connector' = 'filesystem', 'path' = 'best', 'format' = 'debezium-json');
CREATE TABLE items (id BIGINT, item STRING, price BIGINT) WITH ('connector' = 'filesystem', 'path' = 'items', 'format' = 'debezium-json');
EXECUTE STATEMENT SET BEGIN
INSERT INTO rows SELECT MOD(auction, 40), COUNT(*), MAX(price), COUNT(DISTINCT bidder) FROM bid GROUP BY MOD(auction, 40);
INSERT INTO best SELECT channel, auction, price, place FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY channel ORDER BY price DESC, auction, bidder) AS place FROM bid WHERE channel IN ('Google', 'Apple')) WHERE place <= 3;
INSERT INTO items SELECT a.id, a.item, b.price FROM auction AS a LEFT JOIN (SELECT auction, MAX(price) AS price FROM bid GROUP BY auction) AS b ON a.id = b.auction;
END;

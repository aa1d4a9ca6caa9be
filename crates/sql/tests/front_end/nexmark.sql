-- The tables of Nexmark, all events in one stream, and its queries.
-- One file holds all events, as Nexmark's Kafka topic does: event_type 0 person, 1 auction, 2 bid. Times are epoch milliseconds.
CREATE TABLE events (
    event_type INT,
    person  ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, `dateTime` BIGINT, extra STRING>,
    auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` BIGINT, expires BIGINT, seller BIGINT, category BIGINT, extra STRING>,
    bid     ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING>,
    `dateTime` AS CAST(TO_TIMESTAMP_LTZ(
        CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END, 3) AS TIMESTAMP(3)),
    WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'file://${DATA}/events.jsonl', 'format' = 'json');

CREATE VIEW person AS
SELECT person.id, person.name, person.emailAddress, person.creditCard, person.city, person.state, `dateTime`, person.extra
FROM events WHERE event_type = 0;

CREATE VIEW auction AS
SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, `dateTime`,
       CAST(TO_TIMESTAMP_LTZ(auction.expires, 3) AS TIMESTAMP(3)) AS expires, auction.seller, auction.category, auction.extra
FROM events WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
FROM events WHERE event_type = 2;

CREATE TABLE side_input (key BIGINT, `value` STRING)
WITH ('connector' = 'filesystem', 'path' = 'file://${DATA}/side_input.csv', 'format' = 'csv');

-- q0: pass every bid through (measures overhead alone)
SELECT b.auction, b.bidder, b.price, b.`dateTime`, b.extra
FROM bid AS b;
-- q1: bid prices from dollars to euros; DECIMAL arithmetic
SELECT b.auction, b.bidder, 0.908 * b.price AS price, b.`dateTime`, b.extra
FROM bid AS b;
-- q2: bids on every 123rd auction
SELECT auction, price
FROM bid
WHERE MOD(auction, 123) = 0;
-- q3: who sells in category 10 from OR, ID or CA? Regular inner join of two streams
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON p.id = a.seller
WHERE a.category = 10
  AND p.state IN ('OR', 'ID', 'CA');
-- q4: mean closing price per category. Two updating aggregates, one above the other
SELECT w.category, AVG(w.final) AS avg_final
FROM (
    SELECT a.id, a.category, MAX(b.price) AS final
    FROM auction AS a
    JOIN bid AS b ON b.auction = a.id
    WHERE b.`dateTime` BETWEEN a.`dateTime` AND a.expires
    GROUP BY a.id, a.category
) AS w
GROUP BY w.category;
-- q5: auctions with the most bids in each 10 s window sliding by 2 s
WITH counts AS (
    SELECT auction, window_start, window_end, COUNT(*) AS num
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
)
SELECT c.auction, c.num
FROM counts AS c
JOIN (
    SELECT window_start, window_end, MAX(num) AS maxn
    FROM counts
    GROUP BY window_start, window_end
) AS m
  ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxn;
-- q7: the highest bids of each 10 s window
SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra
FROM bid AS b
JOIN (
    SELECT window_end AS `until`, MAX(price) AS maxprice
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) AS m ON b.price = m.maxprice
WHERE b.`dateTime` BETWEEN m.`until` - INTERVAL '10' SECOND AND m.`until`;
-- q8: persons who registered and opened an auction in the same 10 s window. Window join
SELECT p.id, p.name, p.starttime
FROM (
    SELECT id, name, window_start AS starttime, window_end AS endtime
    FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    GROUP BY id, name, window_start, window_end
) AS p
JOIN (
    SELECT seller, window_start AS starttime, window_end AS endtime
    FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end
) AS s
  ON s.seller = p.id AND s.starttime = p.starttime AND s.endtime = p.endtime;
-- q9: the winning bid of each auction (highest price, then earliest). Updating
SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra,
       auction, bidder, price, bid_dateTime, bid_extra
FROM (
    SELECT a.*, b.auction, b.bidder, b.price, b.`dateTime` AS bid_dateTime, b.extra AS bid_extra,
           ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime` ASC) AS place
    FROM auction AS a
    JOIN bid AS b ON b.auction = a.id
    WHERE b.`dateTime` BETWEEN a.`dateTime` AND a.expires
)
WHERE place <= 1;
-- q10: bids with their day and minute, as written to a partitioned file sink
SELECT auction, bidder, price, `dateTime`, extra,
       DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, DATE_FORMAT(`dateTime`, 'HH:mm') AS `minute`
FROM bid;
-- q11: bids per bidder and session (gap 10 s), in the older group-window form
SELECT b.bidder, COUNT(*) AS bid_count,
       SESSION_START(b.`dateTime`, INTERVAL '10' SECOND) AS starttime,
       SESSION_END(b.`dateTime`, INTERVAL '10' SECOND) AS endtime
FROM bid AS b
GROUP BY b.bidder, SESSION(b.`dateTime`, INTERVAL '10' SECOND);
-- q12 in event time (the original counts in processing time and has no fixed result)
SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
-- q13: enrich bids from a bounded side table (the original uses FOR SYSTEM_TIME AS OF a processing time; same rows)
SELECT b.auction, b.bidder, b.price, b.`dateTime`, s.`value`
FROM bid AS b
JOIN side_input AS s ON s.key = MOD(b.auction, 10000);
-- q14: CASE, DECIMAL, a user function count_char(text, letter) that counts letters (declare it as your engine does)
SELECT auction, bidder, 0.908 * price AS price,
       CASE
           WHEN HOUR(`dateTime`) BETWEEN 8 AND 18 THEN 'dayTime'
           WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime'
           ELSE 'otherTime'
       END AS bidTimeType,
       `dateTime`, extra, count_char(extra, 'c') AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
-- q15: bidders and auctions per day and price rank; many distinct counts with filters. Updating
SELECT DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`,
       COUNT(*) AS total_bids,
       COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       COUNT(DISTINCT bidder) AS total_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
       COUNT(DISTINCT auction) AS total_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid
GROUP BY DATE_FORMAT(`dateTime`, 'yyyy-MM-dd');
-- q16: q15 by channel, with the last minute seen. Updating
SELECT channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`,
       COUNT(*) AS total_bids,
       COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       COUNT(DISTINCT bidder) AS total_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
       COUNT(DISTINCT auction) AS total_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid
GROUP BY channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd');
-- q17: statistics per auction and day. Updating
SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`,
       COUNT(*) AS total_bids,
       COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price
FROM bid
GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd');
-- q18: the last bid of each bidder on each auction (deduplication, keep last). Updating
SELECT auction, bidder, price, channel, url, `dateTime`, extra
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place
    FROM bid
)
WHERE place <= 1;
-- q19: the ten highest bids of each auction, with their rank. Updating
SELECT *
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
    FROM bid
)
WHERE rank_number <= 10;
-- q20: bids with their auction, category 10 only. Regular inner join
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.`dateTime`, b.extra,
       a.itemName, a.description, a.initialBid, a.reserve, a.`dateTime`, a.expires, a.seller, a.category, a.extra
FROM bid AS b
JOIN auction AS a ON a.id = b.auction
WHERE a.category = 10;
-- q21: channel ids by name or from the URL
SELECT auction, bidder, price, channel,
       CASE LOWER(channel)
           WHEN 'apple' THEN '0'
           WHEN 'google' THEN '1'
           WHEN 'facebook' THEN '2'
           WHEN 'baidu' THEN '3'
           ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
       END AS channel_id
FROM bid
WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')
   OR REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL;
-- q22: the directories of a URL
SELECT auction, bidder, price, channel,
       SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3
FROM bid;
-- q23: bids with their bidder and with the auctions that the bidder sells. Three-way join
SELECT b.bidder, b.price, b.channel, b.url, b.extra AS bid_extra,
       p.id AS person_id, p.name, p.emailAddress, p.creditCard, p.city, p.state, p.extra AS person_extra,
       a.itemName, a.description, a.initialBid, a.reserve, a.`dateTime` AS auction_dateTime, a.expires, a.seller, a.category, a.extra AS auction_extra
FROM bid AS b
JOIN person AS p ON p.id = b.bidder
JOIN auction AS a ON a.seller = b.bidder;

SELECT t.id, x.price FROM trades AS t LEFT JOIN markets FOR SYSTEM_TIME AS OF t.ts AS x ON t.k = x.k AND t.m = x.m AND t.q * 20 > x.price;

SELECT t.id, t.k, x.price, x.m FROM trades AS t JOIN markets FOR SYSTEM_TIME AS OF t.ts AS x ON x.m = t.m AND t.k = x.k;

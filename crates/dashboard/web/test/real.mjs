// The real program for tests: the one of the environment variable MILLSTREAM_BINARY, with jobs in a folder that is
// removed at the end, and servers that its tables talk to.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const binary = process.env.MILLSTREAM_BINARY;

/** For tests that need the program: false, or why they are left out. */
export const skip = binary ? false : 'MILLSTREAM_BINARY is not set: it names the millstream to be tested';

const env = { ...process.env, MILLSTREAM_CLUSTER_TOKEN: randomBytes(32).toString('hex') };

/** A place for processes, servers and files, all of which end with `close`. */
export function place() {
  const folder = mkdtempSync(join(tmpdir(), 'millstream-dashboard-'));
  const ends = [];
  return {
    folder,
    /** Ends `thing` at the end, too. */
    atTheEnd: (end) => ends.push(end),
    async close() {
      await Promise.all(ends.map((end) => end()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Starts the program; resolves once its output has what `ready` matches. */
async function start(at, words, ready) {
  const child = spawn(binary, words, { cwd: at.folder, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const process = { child, log: '', end: once(child, 'exit').then(([code, signal]) => code ?? signal) };
  at.atTheEnd(() => {
    child.kill('SIGKILL');
    return process.end;
  });
  const found = new Promise((resolve) =>
    child.stderr.on('data', (piece) => {
      process.log += piece;
      const match = process.log.match(ready);
      if (match) resolve(match[1]);
    }),
  );
  const early = process.end.then((code) => Promise.reject(new Error(`it ended with ${code}: ${process.log}`)));
  early.catch(() => {});
  process.address = await Promise.race([found, early]);
  return process;
}

/** `millstream run` of some SQL. What it returns has `url`, `get` (of the API) and the process. */
export async function run(at, sql, words = []) {
  const job = await start(at, ['run', '-e', sql, '--http', '127.0.0.1:0', ...words], /dashboard at (http:\S+?),/);
  job.url = `${job.address}/`;
  /** What the API answers, or null if that is an error. */
  job.get = async (path) => {
    const response = await fetch(`${job.address}/api/v1${path}`);
    return response.ok ? response.json() : null;
  };
  return job;
}

/** `millstream node`: `address` is where it waits for runs. */
export const node = (at) => start(at, ['node', '--listen', '127.0.0.1:0'], /waiting for runs at (\S+)/);

/** The port of a server that takes connections, and reads nothing from them. */
export async function deaf(at) {
  const sockets = new Set();
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  at.atTheEnd(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
}

/** A port where nobody listens. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** A connection to a port where a server will listen soon. */
export async function connection(at, port) {
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    try {
      await once(socket, 'connect');
      socket.on('error', () => {});
      at.atTheEnd(() => socket.destroy());
      return socket;
    } catch (error) {
      if (error.code !== 'ECONNREFUSED') throw error;
    }
  }
}

/** Nexmark's events as they come in real time. */
export const events = (perSecond, more = '') => `CREATE TABLE events (
    event_type INT,
    auction ROW<id BIGINT, itemName STRING>,
    bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, \`dateTime\` TIMESTAMP(3)>,
    ts AS bid.\`dateTime\`,
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
  ) WITH ('connector' = 'nexmark', 'first-event.rate' = '${perSecond}', 'rate.limited' = 'true', 'base-time' = 'now'${more});`;

/** Nexmark's query 5, over windows that are short enough for a test. */
export const q5 = `
  CREATE TABLE hot_items (auction BIGINT, num BIGINT) WITH ('connector' = 'blackhole');
  CREATE VIEW counts AS
    SELECT bid.auction AS auction, window_start, window_end, COUNT(*) AS num
    FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))
    WHERE event_type = 2
    GROUP BY bid.auction, window_start, window_end;
  INSERT INTO hot_items
    SELECT c.auction, c.num
    FROM counts AS c
    JOIN (SELECT window_start, window_end, MAX(num) AS maxn FROM counts GROUP BY window_start, window_end) AS m
      ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxn;`;

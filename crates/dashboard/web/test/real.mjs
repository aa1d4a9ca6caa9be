// The real program for tests: the one of the environment variable MILLSTREAM_BINARY, with jobs in a folder that is
// removed at the end, and servers that its tables talk to.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
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

/** Rows for such a server. */
export const toDeaf = (port) => `
  CREATE TABLE orders (id BIGINT, price BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000');
  CREATE TABLE warehouse (id BIGINT, note STRING)
    WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '${port}', 'format' = 'json');
  INSERT INTO warehouse SELECT id, REPEAT('x', 1000) FROM orders WHERE price > 0`;

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
async function connection(at, port) {
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
export const events = (perSecond) => `CREATE TABLE events (
    event_type INT,
    bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, \`dateTime\` TIMESTAMP(3)>,
    ts AS bid.\`dateTime\`,
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
  ) WITH ('connector' = 'nexmark', 'first-event.rate' = '${perSecond}', 'rate.limited' = 'true', 'base-time' = 'now');`;

/** The example of the page about the dashboard, which is Nexmark's query 5, with another rate. */
export function q5(perSecond) {
  const page = readFileSync(new URL('../../../../docs/how-to/dashboard.md', import.meta.url), 'utf8');
  const [, sql] = page.match(/^`hot_items\.sql`:\n\n```sql[^\n]*\n(.*?)^```$/ms);
  return sql.replace("'first-event.rate' = '10000'", `'first-event.rate' = '${perSecond}'`);
}

/** Clicks that come through connections, each of which is a split, and are counted by the second. */
export const clicks = (port, connections) => `
  CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'socket', 'mode' = 'server',
    'hostname' = '127.0.0.1', 'port' = '${port}', 'scan.connections' = '${connections}', 'format' = 'json');
  CREATE TABLE views (page STRING, n BIGINT) WITH ('connector' = 'blackhole');
  INSERT INTO views SELECT page, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' SECOND))
    GROUP BY page, window_start, window_end`;

/** Makes the connections, and sends rows through all of them but the last, which sends one and is silent. */
export async function sendClicks(at, port, connections) {
  const sockets = [];
  for (let i = 0; i < connections; i += 1) sockets.push(await connection(at, port));
  const send = (socket, page) =>
    socket.write(`${JSON.stringify({ page, ts: new Date().toISOString().slice(0, 23).replace('T', ' ') })}\n`);
  const silent = sockets.pop();
  send(silent, '/');
  const timer = setInterval(() => sockets.forEach((socket, i) => send(socket, `/${i}`)), 100);
  at.atTheEnd(() => clearInterval(timer));
}

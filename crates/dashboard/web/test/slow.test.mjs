// Clients that read slowly or not at all: neither the job nor other clients wait for them. Against the real program
// (MILLSTREAM_BINARY), without a browser.
import { after, before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { until } from './until.mjs';
import { place, run, skip } from './real.mjs';

/** Files make splits, and splits make long answers: 150 kB of statistics, which soon fill what a connection buffers. */
const FILES = 500;
const CONNECTIONS = 20;
/** So many of the connections read, so many bytes ten times a second. */
const READERS = 10;
const PIECE = 400;

const sql = `
  CREATE TABLE files (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
  CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50000',
    'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000');
  CREATE TABLE o (n BIGINT) WITH ('connector' = 'blackhole');
  INSERT INTO o SELECT n FROM numbers UNION ALL SELECT n FROM files`;

describe('slow clients', { skip }, () => {
  let at;
  let job;
  before(async () => {
    at = place();
    mkdirSync(`${at.folder}/in`);
    for (let i = 0; i < FILES; i += 1) writeFileSync(`${at.folder}/in/${i}.csv`, '1\n');
    job = await run(at, sql);
  });
  after(() => at?.close());

  /** Rows a second, over three seconds of the job. */
  async function rate() {
    const from = await job.get('/jobs/o');
    const to = await until(async () => {
      const now = await job.get('/jobs/o');
      return now.running_s >= from.running_s + 3 && now;
    }, 'three seconds');
    return (to.rows_in - from.rows_in) / (to.running_s - from.running_s);
  }

  /** Asks more than once for what has an end, and then does not read, or reads a little at a time. */
  async function ask(what, isReader) {
    const { hostname, port } = new URL(job.url);
    const socket = connect({ host: hostname, port: Number(port) }).pause();
    at.atTheEnd(() => socket.destroy());
    socket.on('error', () => {});
    const times = what === 'stats' ? 100 : 1;
    socket.write(`GET /api/v1/jobs/o/${what} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(times));
    const counted = { bytes: 0 };
    if (isReader) {
      const timer = setInterval(() => {
        counted.bytes += (socket.read(PIECE) ?? socket.read())?.length ?? 0;
      }, 100);
      at.atTheEnd(() => clearInterval(timer));
    }
    return counted;
  }

  /** Connections whose answers the system could not send on; null where it does not tell. */
  function heldUp() {
    if (!existsSync('/proc/net/tcp')) return null;
    const port = Number(new URL(job.url).port).toString(16).toUpperCase().padStart(4, '0');
    const lines = readFileSync('/proc/net/tcp', 'utf8').trim().split('\n').slice(1);
    const fields = lines.map((line) => line.trim().split(/\s+/));
    return fields.filter(([, local, , , queues]) => local.endsWith(`:${port}`) && !queues.startsWith('00000000:'))
      .length;
  }

  it('cost a job nothing, and other clients are answered', async () => {
    await until(async () => (await job.get('/jobs/o'))?.rows_in > 100_000, 'two seconds of rows', 20);
    const before = await rate();
    const clients = await Promise.all(
      Array.from({ length: CONNECTIONS }, (_, i) => ask(i % 2 ? 'stats' : 'events', i < READERS)),
    );
    await until(() => (heldUp() ?? CONNECTIONS) >= CONNECTIONS * 0.8, 'answers that wait for their clients', 30);
    // Who is asked while others compile may once be late; a job that is held up stays so.
    await until(async () => (await rate()) >= 0.8 * before, `0.8 of ${before} rows/s`, 20);
    const asked = Date.now();
    assert.ok((await job.get('/jobs')).jobs.length === 1 && Date.now() - asked < 2000, 'another client is answered');
    clients.slice(0, READERS).forEach(({ bytes }) => assert.ok(bytes > 0, 'who reads slowly gets something'));
    clients.slice(READERS).forEach(({ bytes }) => assert.equal(bytes, 0));
  });
});

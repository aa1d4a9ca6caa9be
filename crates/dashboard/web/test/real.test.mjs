// The pages against the real program (MILLSTREAM_BINARY): all of them on a job that is well, and what is wrong with
// others, each found within two clicks from the jobs. Jobs begin together, as some troubles take their time to show.
import { after, before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { close, launch, open, textOf, until } from './browser.mjs';
import { clicks, deaf, events, freePort, node, place, q5, run, sendClicks, skip, toDeaf } from './real.mjs';
import { bytes, count, whole } from '../src/format.js';

const checkpoints = (folder, interval = '1 s') => [
  '--state-dir',
  folder,
  '--set',
  `execution.checkpointing.interval=${interval}`,
];
/** As many rows a second as a debug build takes beside the others. */
const RATE = 4000;
/** For what takes the program half a minute to be sure of. */
const LONG_S = 50;

const sequence = (name) => `
  CREATE TABLE ${name} (k BIGINT, text STRING) WITH ('connector' = 'datagen', 'rows-per-second' = '5000',
    'fields.k.kind' = 'sequence', 'fields.k.start' = '0', 'fields.k.end' = '1000000000', 'fields.text.length' = '100');`;
const growingSql = `${sequence('l')} ${sequence('r')}
  CREATE TABLE pairs (k BIGINT, one STRING, other STRING) WITH ('connector' = 'blackhole');
  INSERT INTO pairs SELECT l.k, l.text, r.text FROM l JOIN r ON l.k = r.k`;

const clusterSql = `${events(1000)}
  CREATE TABLE prices (auction BIGINT, price BIGINT) WITH ('connector' = 'blackhole');
  INSERT INTO prices SELECT bid.auction, bid.price FROM events WHERE event_type = 2`;

describe('real', { concurrency: 3, skip }, () => {
  let at;
  let browser;
  let jobs;
  /** Once the nodes have been killed. */
  let lost;
  before(async () => {
    at = place();
    const [deafPort, port] = await Promise.all([deaf(at), freePort()]);
    const hot = run(at, q5(RATE), checkpoints('hot'));
    const stuck = run(at, toDeaf(deafPort));
    const held = run(at, clicks(port, 3));
    const growing = run(at, growingSql);
    const second = node(at);
    // The node that dies is waited for until the last test has seen that.
    const nodes = (address) => ['--cluster', `static://${address}`, '--cluster-replacement-timeout', '600'];
    const cluster = second.then(({ address }) =>
      run(at, clusterSql, [...nodes(address), ...checkpoints('cluster')]),
    );
    const third = node(at);
    const windowed = third.then(({ address }) =>
      run(at, q5(RATE), [...nodes(address), ...checkpoints('windowed')]),
    );
    browser = await launch();
    jobs = {
      hot: await hot,
      stuck: await stuck,
      held: await held,
      growing: await growing,
      cluster: await cluster,
      windowed: await windowed,
    };
    await sendClicks(at, port, 3);
    lost = Promise.all([lose(await second, 'cluster', 'prices'), lose(await third, 'windowed', 'hot_items')]);
  });
  after(async () => {
    await browser?.close();
    await at?.close();
  });

  /** Kills a node as soon as another process could take its place: once there is a checkpoint. */
  async function lose({ child }, job, id) {
    await until(async () => (await stats(job, id))?.checkpoints.complete > 0, 'a checkpoint of two nodes', 30);
    const lanes = async () => (await stats(job, id)).nodes.flatMap(({ lanes }) => lanes);
    const credits = async () => (await lanes()).map(({ to, credit_bytes: credit }) => [to, credit]);
    await until(async () => isDeepStrictEqual(await credits(), [1, 0].map((to) => [to, 16 << 20])), 'both lanes', 10);
    child.kill('SIGKILL');
  }

  const stats = (job, id) => jobs[job].get(`/jobs/${id}/stats`);
  const see = (page, text, seconds = 10) =>
    page
      .getByText(text)
      .first()
      .waitFor({ timeout: seconds * 1000 });
  const visit = (job, options) => open(browser, jobs[job].url, { expected: /409/, ...options });
  const row = (page, table, name) =>
    page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: name }).first();
  const figure = (page, label) => textOf(page.locator('.figure', { hasText: label }).first());
  const plain = (text) => text.replaceAll('\u00a0', ' ');

  it('all pages of a job that is well', async () => {
    const page = await visit('hot');
    await until(async () => (await stats('hot', 'hot_items'))?.sinks[0].rows > 0, 'rows of the first window', 20);
    await page.getByRole('link', { name: 'hot_items' }).click();
    await see(page, 'No problems found.');
    await see(page, 'INSERT INTO hot_items');
    await until(async () => (await page.locator('.charts canvas').count()) === 6, 'charts');
    const pages = [
      ['Graph', 'No backpressure'],
      ['Splits', 'nexmark'],
      ['Code', 'Variants'],
      ['State', 'Memory by class'],
      ['Checkpoints', 'Duration by phase'],
      ['Errors', 'No row was late, malformed or failed.'],
      ['Rows', 'so far'],
    ];
    for (const [name, text] of pages) {
      await page.getByRole('link', { name, exact: true }).click();
      await see(page, text);
    }
    await until(
      async () => (await page.locator('tbody tr td').first().innerText()).match(/^\d+$/),
      'a row of the result',
    );
    await page.getByRole('link', { name: 'Graph', exact: true }).click();
    const parts = (await jobs.hot.get('/jobs/hot_items/plan')).nodes.map(({ id }) => id);
    await page.locator('.drawing [data-node]').first().waitFor();
    const drawn = await page.locator('.drawing [data-node]').evaluateAll((all) => all.map((n) => n.dataset.node));
    assert.deepEqual(drawn.sort(), parts.sort());
    await page.getByRole('link', { name: 'Code', exact: true }).click();
    await page.getByRole('button', { name: 'Show the code' }).click();
    const code = (name) => page.getByRole('group', { name }).innerText();
    await until(async () => /define /.test(await code('LLVM IR')), 'code', 20);
    assert.match(await code('Row program'), /program "pipeline 0"/);
    await close(page);
  });

  it('numbers are those of the statistics of the last second', async () => {
    const page = await visit('hot');
    await page.getByRole('link', { name: 'hot_items' }).click();
    await until(async () => (await stats('hot', 'hot_items'))?.checkpoints.complete > 0, 'a checkpoint', 20);
    /** What the page shows becomes what is asked for before it by less than a second. */
    const agrees = async (tab, shown, wanted) => {
      await page.getByRole('link', { name: tab, exact: true }).click();
      const asked = [];
      await until(async () => {
        asked.push({ at: Date.now(), ...(await stats('hot', 'hot_items')) });
        const text = plain(await shown());
        return asked.some((s) => Date.now() - s.at < 1000 && text.includes(plain(wanted(s))));
      }, `what is on the page ${tab}`);
    };
    const cells = (table, name) => () => textOf(row(page, table, name));
    await agrees('Splits', cells(/^Splits of source 0/, 'nexmark'), ({ sources: [{ splits }] }) =>
      count(splits[0].rows),
    );
    await agrees(
      'Overview',
      () => figure(page, 'Rows in'),
      (s) => `${count(s.rows_in)} so far`,
    );
    await agrees(
      'Checkpoints',
      () => figure(page, 'Complete'),
      (s) => `Complete\n${whole(s.checkpoints.complete)}\n`,
    );
    await agrees('State', cells('State by operator', 'operator 0'), (s) => bytes(s.operators[0].state_bytes));
    await close(page);
  });

  it('a checkpoint is taken, and the job is stopped with another', async () => {
    const job = await run(at, q5(RATE), checkpoints('stopped', '1 h'));
    const page = await open(browser, `${job.url}#/jobs/hot_items`, { expected: /409|Failed to load|ERR_CONNECTION/ });
    const complete = async () => (await job.get('/jobs/hot_items/stats'))?.checkpoints.complete;
    await until(async () => (await complete()) === 0, 'the job');
    const button = page.getByRole('button', { name: 'Take a checkpoint' });
    await button.click();
    await see(page, 'a checkpoint is being taken');
    await until(async () => (await complete()) === 1, 'the checkpoint');
    await page.getByRole('button', { name: 'Stop…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click();
    assert.equal(await job.end, 0, job.log);
    await see(page, 'The server does not answer.');
    await close(page);
  });

  it('a stuck sink: one click', async () => {
    const page = await visit('stuck');
    await page
      .getByRole('link', { name: /sink 0: warehouse has been busy with one write for \d+ s/ })
      .click({ timeout: 30_000 });
    await page.getByRole('heading', { name: 'sink 0' }).waitFor();
    const cause =
      /source 0: table orders waits \d+ % of the time: sink 0: warehouse has been busy with one write for \d+ s/;
    await until(
      async () => cause.test(await textOf(page.getByRole('region', { name: 'Backpressure' }))),
      'the cause of the backpressure',
    );
    await until(
      async () => (await page.locator('.node.culprit').getAttribute('data-node')) === 'sink 0',
      'the culprit',
    );
    assert.ok((await page.locator('g.edge.high').count()) > 0);
    await close(page);
  });

  it('a silent split that freezes windows: one click', async () => {
    const page = await visit('held');
    const link = page.getByRole('link', {
      name: /^windows wait for '.*' of source 0: table clicks, which has sent no rows for/,
    });
    await link.click({ timeout: 30_000 });
    await see(page, 'holds the watermark of source 0: table clicks back.');
    await see(page, "'scan.watermark.idle-timeout' = '10 s'");
    await page.getByLabel('Filter splits').fill('');
    const splits = page.getByRole('table', { name: /^Splits of source 0/ }).locator('tbody tr');
    await until(async () => (await splits.count()) === 3, 'three splits');
    assert.match(await textOf(splits.first()), /holds the watermark/);
    assert.equal((await stats('held', 'views')).windows, 0, 'no window is complete');
    await close(page);
  });

  it('state that grows: one click', async () => {
    const page = await visit('growing');
    const link = page.getByRole('link', { name: /^the state of operator 0 grows: .*; at this pace memory is full in/ });
    await link.click({ timeout: LONG_S * 1000 });
    await see(page, 'Memory by class');
    const cells = () => textOf(row(page, 'State by operator', 'operator 0'));
    await until(async () => /\d+ [KM]iB\/s/.test(await cells()), 'how fast it grows');
    await close(page);
  });

  it('a node that died: one click', async () => {
    await lost;
    const page = await visit('cluster');
    await page.getByRole('link', { name: /^node 1 is lost \(the connection to node 1 broke/ }).click();
    await see(page, 'Skew');
    assert.match(await textOf(row(page, 'Nodes of the cluster', 'node 1')), /lost/);
    assert.match(await textOf(row(page, 'Nodes of the cluster', 'node 0')), /answers/);
    await close(page);
  });

  it('a node that died, of nodes that send each other rows: no click', async () => {
    await lost;
    const page = await visit('windowed');
    await see(page, /the connection to node 1 broke/, 30);
    await until(async () => /restarting|starting/.test(await textOf(row(page, 'Jobs', 'hot_items'))), 'another start');
    await see(page, /has not begun, after .* the connection to node 1 broke.*: the run waits for 127\.0\.0\.1:\d+/, 10);
    await close(page);
  });
});

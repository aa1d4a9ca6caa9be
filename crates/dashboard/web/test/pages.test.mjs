// Every page shows what the server says; what is wrong with a job is found within two clicks.
import { after, before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { built, close, launch, open, textOf, until } from './browser.mjs';
import { startMock } from './mock.mjs';
import { jobs } from './jobs.mjs';

describe('pages', { concurrency: 3 }, () => {
  let browser;
  let mock;
  before(async () => {
    [browser, mock] = await Promise.all([launch(), startMock(built)]);
  });
  after(() => Promise.all([browser.close(), mock.close()]));

  const visit = (hash, options) => open(browser, mock.url + hash, options);
  const see = (page, text) => page.getByText(text).first().waitFor();
  const row = (page, table, name) =>
    page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: name }).first();
  /** The figure of this label. */
  const figure = (page, label) => textOf(page.locator('.figure', { hasText: label }).first());

  it('jobs: state, rates and errors of all', async () => {
    const page = await visit('#/jobs');
    await see(page, 'hot_items');
    assert.equal(await page.title(), 'Jobs · Millstream');
    const cells = await textOf(row(page, 'Jobs', 'hot_items'));
    assert.match(cells, /jobs\/hot_items\.sql\s+running\s+999 k rows\/s/);
    assert.match(await textOf(row(page, 'Jobs', 'priced')), /8\d %/);
    await see(page, "line 17 of 'invoices.jsonl'");
    assert.match(await textOf(page.locator('.sum')), /7 jobs · 6 running\s+· 1 failed/);
    await page.getByLabel('Filter jobs').fill('invoices');
    await until(async () => (await page.getByRole('link', { name: 'hot_items' }).count()) === 0, 'the filter');
    assert.match(page.url(), /q=invoices/);
    await page.getByLabel('Filter jobs').fill('');
    await page.getByRole('button', { name: 'Memory' }).click();
    assert.equal(await page.getByRole('columnheader', { name: 'Memory' }).getAttribute('aria-sort'), 'descending');
    await until(async () => (await page.locator('tbody tr th').first().innerText()) === 'priced', 'the order');
    await close(page);
  });

  it('jobs: none', async (t) => {
    const mock = await startMock(built);
    t.after(mock.close);
    mock.jobs = {};
    const page = await open(browser, mock.url);
    await see(page, 'There is no job yet.');
    await close(page);
  });

  it('overview: numbers, charts, SQL', async () => {
    const page = await visit('#/jobs/hot_items');
    await see(page, 'No problems found.');
    assert.match(await figure(page, 'Rows in'), /999 k rows\/s\s+\d+ M so far/);
    assert.match(await figure(page, 'Memory'), /13\d MiB|12\d MiB/);
    await until(async () => /1[01] %/.test(await figure(page, 'Workers busy')), 'busy workers');
    await until(async () => (await page.locator('.charts canvas').count()) === 6, 'six charts');
    const label = await page.getByRole('img', { name: /^Workers busy/ }).getAttribute('aria-label');
    assert.match(label, /now \d+.%, highest 13.%/);
    await see(page, 'ROW_NUMBER() OVER');
    const rows = () => figure(page, 'Rows in');
    const first = await rows();
    await until(async () => (await rows()) !== first, 'numbers that advance');
    await close(page);
  });

  it('overview: a failed job says why', async () => {
    const page = await visit('#/jobs/invoices');
    await see(page, 'error[MS4004]: malformed record');
    await see(page, 'the job has failed and is not started again');
    assert.equal(await page.getByRole('button', { name: 'Stop…' }).isDisabled(), true);
    await page.getByRole('link', { name: 'Splits' }).click();
    await see(page, 'the job has not begun');
    await see(page, 'error[MS4004]: malformed record');
    await page.getByRole('link', { name: 'Graph' }).click();
    await until(async () => (await page.locator('.drawing [data-node]').count()) === 7, 'the plan');
    await see(page, 'error[MS4004]: malformed record');
    await see(page, 'INSERT INTO invoices');
    await page.locator('[data-node="pipeline 0"]').click();
    await see(page, 'Nothing is counted for it.');
    await close(page).catch((error) => assert.match(String(error), /409/));
  });

  it('actions: checkpoint, rescale, stop with a question; none where they are off', async (t) => {
    const mock = await startMock(built);
    t.after(mock.close);
    const page = await open(browser, `${mock.url}#/jobs/sessions`);
    await page.getByRole('button', { name: 'Take a checkpoint' }).click();
    await see(page, 'a checkpoint has been asked for');
    await page.getByRole('button', { name: 'Rescale…' }).click();
    await page.getByLabel(/^Nodes/).fill('5');
    await page.getByRole('dialog').getByRole('button', { name: 'Rescale' }).click();
    await see(page, 'the job is rescaled');
    await page.getByRole('button', { name: 'Stop…' }).click();
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await until(async () => (await page.getByRole('dialog').count()) === 0, 'no dialog');
    assert.equal(mock.posts.length, 2, 'nothing was stopped');
    await page.getByRole('button', { name: 'Stop…' }).click();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await see(page, 'the job stops with a checkpoint');
    await see(page, 'stopping');
    assert.deepEqual(mock.posts, [
      { path: 'jobs/sessions/checkpoint', body: null },
      { path: 'jobs/sessions/rescale', body: { nodes: 5 } },
      { path: 'jobs/sessions/stop', body: null },
    ]);
    mock.stopped.clear();
    mock.actions = false;
    await page.reload();
    await see(page, 'Problems');
    assert.equal(await page.getByRole('button', { name: 'Stop…' }).count(), 0);
    await close(page);
  });

  it('graph: nodes with numbers, and details', async () => {
    const page = await visit('#/jobs/hot_items/graph');
    const nodes = page.locator('.drawing [data-node]');
    await until(async () => (await nodes.count()) === 7, 'seven nodes');
    await until(
      async () =>
        /999.k.rows\/s, \d+.queued, 8.% busy/.test(
          await page.locator('[data-node="source 0"]').getAttribute('aria-label'),
        ),
      'rates',
    );
    await see(page, 'No backpressure');
    assert.equal(await page.locator('.edge.high').count(), 1, 'the legend alone');
    await page.locator('[data-node="aggregation 0"]').click();
    await see(page, 'combine subtract over slices of 2000 ms');
    assert.match(page.url(), /node=aggregation%200/);
    await page.reload();
    await see(page, 'combine subtract over slices of 2000 ms');
    assert.match(await textOf(page.locator('.details')), /Trigger delay\s+14\.7 ms median/);
    await page.locator('[data-node="pipeline 0"]').click();
    await see(page, /dropped at 15.1.s: variant 5 costs 30\.56 ns a row instead of 14\.43 ns/);
    await page.locator('[data-node="aggregation 0"]').click();
    const cells = page
      .getByRole('table', { name: 'Nodes of the plan' })
      .getByRole('row')
      .filter({ has: page.getByRole('rowheader', { name: 'pipeline 0' }) });
    await until(
      async () => /project, filter, update\s+999 k rows\/s/.test(await textOf(cells)),
      'the same in the table',
    );
    await close(page);
  });

  it('a stuck sink: two clicks from the jobs', async () => {
    const page = await visit('#/jobs');
    await page.getByRole('link', { name: /busy with one write for 42 s/ }).click();
    await page.getByRole('heading', { name: 'sink 0' }).waitFor();
    await until(async () => (await page.locator('g.edge.high').count()) === 6, 'edges in the colour of backpressure');
    const cause =
      /source 0: table bid waits 9\d % of the time: sink 0: bids has been busy with one write for \d+ s, and as many chunks as allowed are in flight\./;
    await until(async () => cause.test(await textOf(page.getByRole('region', { name: 'Backpressure' }))), 'the cause');
    assert.equal(await page.locator('.node.culprit').getAttribute('data-node'), 'sink 0');
    await close(page);
  });

  it('an idle split among a thousand: one click', async () => {
    const page = await visit('#/jobs');
    await page.getByRole('link', { name: /wait for 'clicks\/part-0417/ }).click();
    await see(page, 'holds the watermark of source 0: table clicks back.');
    await see(page, "'scan.watermark.idle-timeout' = '10 s'");
    assert.match(await textOf(row(page, 'Splits of source 0: table clicks', 'part-0417')), /holds the watermark/);
    // The link filters for the split; all are a click away, in pages.
    await page.getByLabel('Filter splits').fill('');
    await see(page, 'Page 1 of 20');
    assert.match(await textOf(page.locator('tbody tr').first()), /part-0417/);
    await page.getByRole('button', { name: 'Next' }).click();
    await see(page, 'Page 2 of 20');
    await page.getByRole('button', { name: 'Lag' }).click();
    await see(page, 'Page 1 of 20');
    await until(
      async () => /part-0299|part-0599|part-0899/.test(await page.locator('tbody tr').first().innerText()),
      'the largest lag first',
    );
    await page.getByRole('button', { name: /^Idle/ }).click();
    await until(async () => (await page.locator('tbody tr').count()) === 20, 'twenty idle splits');
    await page.getByRole('button', { name: /^Wait .*\d$/ }).click();
    await until(async () => /20 % others are behind/.test(await textOf(page.locator('tbody tr').first())), 'waits');
    await page.reload();
    await until(async () => (await page.locator('tbody tr').count()) === 10, 'the same splits after a reload');
    await close(page);
  });

  it('state that grows: one click', async () => {
    const page = await visit('#/jobs');
    await page.getByRole('link', { name: /keeps every row of both sides/ }).click();
    await see(page, 'Memory by class');
    await until(
      async () => /15\d KiB\/s/.test(await textOf(row(page, 'State by operator', 'operator 0'))),
      'its growth',
    );
    assert.equal(await figure(page, 'Budget').then((text) => /256 MiB/.test(text)), true);
    assert.match(await figure(page, 'Spilled'), /2\d\.\d MiB/);
    assert.match(await page.locator('.stack').getAttribute('aria-label'), /operators 19\d.MiB|operators 20\d.MiB/);
    await close(page);
  });

  it('a node that died: one click', async () => {
    const page = await visit('#/jobs');
    await page.getByRole('link', { name: 'node 2 has told nothing for 24 s' }).click();
    await see(page, 'Skew');
    assert.match(await textOf(row(page, 'Nodes of the cluster', 'node 2')), /does not answer/);
    assert.match(await textOf(row(page, 'Nodes of the cluster', 'node 1')), /answers\s+0 s ago\s+1\s+380 k rows\/s/);
    assert.match(
      await textOf(row(page, 'Events of nodes, newest first', 'node 1')),
      /takes its place from checkpoint 41/,
    );
    const lanes = (name) => textOf(row(page, 'Lanes between nodes', name));
    assert.match(await lanes('node 0 → node 2'), /100 %\s+16\.0 MiB\s+16\.0 MiB\s+3\.2\d? MiB/);
    assert.match(await lanes('node 1 → node 0'), /6 %\s+1\.00 MiB\s+16\.0 MiB\s+0 B/);
    await close(page);
  });

  it('a query that recompiles: one click; its code on demand', async () => {
    const page = await visit('#/jobs');
    await page.getByRole('link', { name: /compiled 31 times/ }).click();
    await see(page, 'recompiles too often');
    assert.match(await textOf(row(page, 'Programs', 'pipeline 0')), /31×\s+3×/);
    await see(page, 'values of country broke what variant 7 assumes');
    assert.match(
      await textOf(row(page, 'Variants', 'variant 1')),
      /now\s+compiled\s+nothing: generic code\s+22\.4 M\s+27\.3 ns\s+71\.0/,
    );
    assert.match(await textOf(row(page, 'Decisions, newest first', 'adopted')), /31\.2 ns → 22\.4 ns\s+28 % less/);
    assert.ok(!mock.asked.includes('/api/v1/jobs/ratings/code'));
    await page.getByRole('button', { name: 'Show the code' }).click();
    await until(
      async () => (await page.getByRole('group', { name: 'Assembly' }).innerText()).includes('.text'),
      'assembly',
    );
    assert.match(await page.getByRole('group', { name: 'LLVM IR' }).innerText(), /define .*@run/);
    assert.match(await page.getByRole('group', { name: 'Row program' }).innerText(), /slice_start v5 size 2000/);
    // The variant in use, then generic code.
    const program = () => page.getByRole('group', { name: 'Row program' }).innerText();
    await see(page, 'in use now, as machine code');
    assert.match(await program(), /country constant/);
    const variant = page.getByRole('combobox', { name: 'Variant', exact: true });
    assert.equal((await variant.innerText()).trim(), 'generic code\nvariant 7: country constant');
    await variant.selectOption('generic code');
    await see(page, 'not in use now');
    assert.match(await program(), /program "pipeline 0" /);
    await page.getByRole('combobox', { name: 'Program', exact: true }).selectOption('pipeline 1');
    await until(
      async () => /program "pipeline 1"/.test(await page.getByRole('group', { name: 'Row program' }).innerText()),
      'the other program',
    );
    assert.match(page.url(), /pipeline=pipeline%201/);
    await close(page);
  });

  it('checkpoints: phases, and advice when there are none', async () => {
    const page = await visit('#/jobs/hot_items/checkpoints');
    const number = Math.floor((Date.now() - mock.startedAt) / 10_000);
    await see(page, 'Duration by phase');
    assert.match(await figure(page, 'Complete'), new RegExp(`Complete\\s+(${number}|${number + 1})\\s`));
    assert.equal(
      await page
        .getByRole('table', { name: /^Recent checkpoints/ })
        .getByRole('row')
        .count(),
      51,
    );
    await page.goto(`${mock.url}#/jobs/priced/checkpoints`);
    await see(page, 'This job takes no checkpoints.');
    await see(page, '--state-dir DIR');
    await close(page);
  });

  it('errors: counts, the first error, samples by kind', async () => {
    const page = await visit('#/jobs/priced/errors');
    await see(page, 'division by zero');
    assert.match(await figure(page, 'Rows malformed'), /41/);
    assert.match(await figure(page, 'Rows late'), /2,\d{3}/);
    await page.getByRole('button', { name: 'malformed', exact: true }).click();
    await until(
      async () =>
        (await page
          .getByRole('table', { name: /^Samples/ })
          .getByRole('row')
          .count()) === 2,
      'one sample',
    );
    await page.goto(`${mock.url}#/jobs/hot_items/errors`);
    await see(page, 'No row was late, malformed or failed.');
    await close(page);
  });

  it('rows: table, chart and pause', async () => {
    const page = await visit('#/jobs/hot_items/rows');
    const newest = () => page.locator('tbody tr').first().innerText();
    await page.getByRole('table', { name: /^Rows of sink 0: hot_items/ }).waitFor();
    const first = await newest();
    await until(async () => (await newest()) !== first, 'new rows');
    await see(page, 'NULL');
    await page.getByRole('combobox', { name: 'y', exact: true }).selectOption('auction');
    await page.getByRole('combobox', { name: 'x', exact: true }).selectOption('window_start');
    await page.getByRole('heading', { name: 'auction by window_start' }).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await see(page, /paused, as of/);
    const asked = mock.asked.filter((path) => path.endsWith('/rows')).length;
    // Statistics go on, so that a second has passed when there are new ones.
    const stats = () => mock.asked.filter((path) => path.endsWith('/stats')).length;
    const before = stats();
    await until(() => stats() >= before + 2, 'two more statistics');
    assert.ok(mock.asked.filter((path) => path.endsWith('/rows')).length <= asked + 1);
    await close(page);
  });

  it('a job or a page that is not there', async () => {
    const page = await visit('#/jobs/nothing', { expected: /404/ });
    await see(page, 'there is no job nothing');
    await page.getByRole('link', { name: 'All jobs' }).click();
    await see(page, 'hot_items');
    await page.goto(`${mock.url}#/jobs/priced/code?code=1`);
    await see(page, 'Variants');
    await close(page);
  });

  it('names with any characters are in the address', async (t) => {
    const mock = await startMock(built);
    t.after(mock.close);
    const id = 'a/b c?%#ü';
    mock.jobs = { [id]: { ...jobs.hot_items, id } };
    const page = await open(browser, mock.url);
    await page.getByRole('link', { name: id }).click();
    await see(page, 'No problems found.');
    await page.getByRole('link', { name: 'Checkpoints' }).click();
    await see(page, 'Duration by phase');
    await page.reload();
    await see(page, 'Duration by phase');
    await close(page);
  });
});

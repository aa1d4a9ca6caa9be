// What happens when the server does not answer, wants a token, or is older than the page.
import { after, before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { axe, built, close, launch, open, textOf, until } from './browser.mjs';
import { startMock } from './mock.mjs';
import { jobs } from './jobs.mjs';

describe('connection', { concurrency: 3 }, () => {
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser.close());

  it('the server goes and comes back', async (t) => {
    const mock = await startMock(built);
    t.after(mock.close);
    const page = await open(browser, `${mock.url}#/jobs/hot_items`, {
      expected: /ERR_EMPTY_RESPONSE|ERR_CONNECTION|Failed to load/,
    });
    await page.getByText('No problems found.').waitFor();
    mock.isGone = true;
    await page.getByText('The server does not answer.').waitFor();
    const outage = () => textOf(page.locator('.outage'));
    await until(async () => /What is shown is [1-9]\d* s old/.test(await outage()), 'the age of what is shown');
    assert.match(await textOf(page.locator('.figure').first()), /rows\/s/, 'the last numbers are still there');
    assert.deepEqual(await axe(page), []);
    await page.getByRole('button', { name: 'Try now' }).click();
    mock.isGone = false;
    await until(async () => (await outage()).trim() === '', 'an answer');
    await close(page);
  });

  it('a token is asked for, refused, and kept until the tab is closed', async (t) => {
    const mock = await startMock(built, { token: 'right one' });
    t.after(mock.close);
    const page = await open(browser, `${mock.url}#/jobs/hot_items/checkpoints`, { expected: /401/ });
    const field = page.getByRole('textbox', { name: 'Token' });
    await field.waitFor();
    assert.deepEqual(await axe(page), []);
    assert.equal(await page.evaluate(() => document.activeElement.type), 'password');
    await field.fill('wrong one');
    await page.keyboard.press('Enter');
    await page.getByText('The server refused this token.').waitFor();
    await field.fill('right one');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText('Duration by phase').waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    await page.reload();
    await page.getByText('Duration by phase').waitFor();
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await close(page);
  });

  it('a part that the server cannot give is asked for seldom, and the rest is shown', async (t) => {
    const mock = await startMock(built);
    t.after(mock.close);
    mock.jobs.hot_items = {
      ...jobs.hot_items,
      history: () => {
        throw new Error('the history is damaged');
      },
    };
    const page = await open(browser, `${mock.url}#/jobs/hot_items`, { expected: /500/ });
    const asked = (end) => mock.asked.filter((path) => path.endsWith(end)).length;
    await until(() => asked('/stats') >= 5, 'five statistics');
    assert.ok(
      asked('/history') <= 3 && asked('/stats') < 8,
      `${asked('/history')} histories, ${asked('/stats')} statistics`,
    );
    assert.equal(await page.getByText('does not answer').count(), 0);
    assert.match(await textOf(page.locator('.figure').first()), /rows\/s/);
    await close(page);
  });

  it('a hidden tab asks nothing', async (t) => {
    const mock = await startMock(built);
    t.after(mock.close);
    const page = await open(browser, `${mock.url}#/jobs`);
    await page.getByText('hot_items').first().waitFor();
    const turn = (hidden) =>
      page.evaluate((isHidden) => {
        Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
      }, hidden);
    await turn(true);
    // What is on its way comes; then two seconds of the page's own clock pass without a question.
    const asked = await page.evaluate(
      () => new Promise((resolve) => setTimeout(() => resolve(performance.getEntriesByType('resource').length), 1200)),
    );
    const later = await page.evaluate(
      () => new Promise((resolve) => setTimeout(() => resolve(performance.getEntriesByType('resource').length), 1200)),
    );
    assert.equal(later, asked);
    await turn(false);
    await until(
      () => page.evaluate((n) => performance.getEntriesByType('resource').length > n, later),
      'questions again',
    );
    await close(page);
  });

  it('statistics without what is new in them', async (t) => {
    const mock = await startMock(built);
    t.after(mock.close);
    const older = { ...jobs.hot_items, id: 'older' };
    older.stats = (at) => {
      const stats = jobs.hot_items.stats(at);
      delete stats.samples;
      delete stats.checkpoints.recent;
      for (const part of [...stats.aggregations, ...stats.operators]) delete part.state_bytes;
      stats.sources.forEach((source) => source.splits.forEach((split) => delete split.waits));
      return stats;
    };
    mock.jobs.older = older;
    const page = await open(browser, `${mock.url}#/jobs/older/graph`);
    await page.getByText('This server does not count how long sources wait').waitFor();
    for (const [tab, text] of [
      ['splits', 'nexmark'],
      ['state', 'does not say how much state'],
      ['checkpoints', 'keeps no history'],
      ['errors', 'No row was late'],
    ]) {
      await page.goto(`${mock.url}#/jobs/older/${tab}`);
      await page.getByText(text).first().waitFor();
    }
    await close(page);
  });
});

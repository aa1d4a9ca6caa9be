// Everybody can use it: axe in both themes, the keyboard, narrow screens.
import { after, before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { axe, built, close, launch, open, until } from './browser.mjs';
import { startMock } from './mock.mjs';

describe('access', { concurrency: 3 }, () => {
  let browser;
  let mock;
  before(async () => {
    [browser, mock] = await Promise.all([launch(), startMock(built)]);
  });
  after(() => Promise.all([browser.close(), mock.close()]));

  /** A page each, and what is on it when it is complete. */
  const PAGES = [
    ['#/jobs', 'part-0417'],
    ['#/jobs/bids_to_kafka', 'ROW_NUMBER'],
    ['#/jobs/invoices', 'MS4004'],
    ['#/jobs/invoices/graph', 'INSERT INTO invoices'],
    ['#/jobs/bids_to_kafka/graph?node=sink%200', 'emit into'],
    ['#/jobs/clicks/splits', 'holds the watermark of'],
    ['#/jobs/ratings/code?code=1', 'ModuleID'],
    ['#/jobs/priced/state', 'Spill'],
    ['#/jobs/hot_items/checkpoints', 'Duration by phase'],
    ['#/jobs/priced/checkpoints', 'takes no checkpoints'],
    ['#/jobs/priced/errors', 'division by zero'],
    ['#/jobs/hot_items/rows', 'so far'],
    ['#/jobs/sessions/nodes', 'does not answer'],
  ];

  for (const theme of ['light', 'dark']) {
    // What is not about colours is the same in both.
    const rules = theme === 'light' ? null : ['color-contrast', 'link-in-text-block'];
    it(`axe finds nothing in the ${theme} theme`, async () => {
      const page = await open(browser, mock.url, { theme, expected: /409/ });
      for (const [hash, text] of PAGES) {
        await page.goto(mock.url + hash);
        await page.getByText(text).first().waitFor();
        assert.deepEqual(await axe(page, rules), [], hash);
      }
      await page.goto(`${mock.url}#/jobs/hot_items`);
      await page.getByRole('button', { name: 'Stop…' }).click();
      assert.deepEqual(await axe(page, rules), [], 'the dialog');
      await close(page);
    });
  }

  it('no page is wider than a screen of 360 px, nor than one of 1600 px', async () => {
    for (const width of [360, 1600]) {
      const page = await open(browser, mock.url, { width, height: 740, expected: /409/ });
      for (const [hash, text] of PAGES) {
        await page.goto(mock.url + hash);
        await page.getByText(text).first().waitFor();
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${hash} is ${over} px wider than ${width} px`);
      }
      await close(page);
    }
  });

  it('the keyboard walks through the graph', async () => {
    const page = await open(browser, `${mock.url}#/jobs/priced/graph`, { width: 1600 });
    const focused = () => page.evaluate(() => document.activeElement.dataset?.node ?? document.activeElement.id);
    await page.locator('[data-node="source 0"]').focus();
    await page.keyboard.press('ArrowRight');
    const first = await focused();
    assert.match(first, /^pipeline [01]$/);
    await page.keyboard.press(first === 'pipeline 0' ? 'ArrowUp' : 'ArrowDown');
    const second = await focused();
    assert.ok(/^pipeline [01]$/.test(second) && second !== first, 'the other branch');
    await page.keyboard.press('ArrowRight');
    assert.equal(await focused(), 'operator 0');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'operator 0' }).waitFor();
    await until(async () => (await focused()) === 'details', 'the focus in the details');
    await page.keyboard.press('Escape');
    await until(async () => (await focused()) === 'operator 0', 'the focus back at the node');
    // With Tab, in the order of the rows.
    await page.locator('[data-node="source 0"]').focus();
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'pipeline 0');
    await close(page);
  });

  it('the first Tab skips to the content', async () => {
    const page = await open(browser, `${mock.url}#/jobs/hot_items`);
    await page.getByText('No problems found.').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    assert.match(page.url(), /#\/jobs\/hot_items$/);
    await close(page);
  });

  it('the theme is kept', async () => {
    const page = await open(browser, mock.url, { theme: 'light' });
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    const button = page.getByRole('button', { name: 'Dark theme' });
    await button.click();
    assert.equal(await theme(), 'dark');
    assert.equal(await button.getAttribute('aria-pressed'), 'true');
    await page.reload();
    await button.waitFor();
    assert.equal(await theme(), 'dark');
    await button.click();
    await page.emulateMedia({ colorScheme: 'dark' });
    await until(async () => (await theme()) === 'dark', 'the theme of the system');
    await close(page);
  });

  it('numbers that change move nothing', async () => {
    const page = await open(browser, `${mock.url}#/jobs/hot_items`);
    await until(async () => (await page.locator('.charts canvas').count()) === 6, 'charts');
    const places = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('.figure, .chart, .panel, h1, nav a')].map((element) =>
          Object.values(element.getBoundingClientRect().toJSON()).map(Math.round).join(),
        ),
      );
    const text = () => page.locator('.figures').innerText();
    const [before, numbers] = [await places(), await text()];
    await until(async () => (await text()) !== numbers, 'other numbers');
    assert.deepEqual(await places(), before);
    await close(page);
  });
});

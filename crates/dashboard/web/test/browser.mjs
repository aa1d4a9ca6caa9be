// A browser for tests: Debian's chromium, pages that report what goes wrong in them, and axe.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

/** The built files: what scripts/web.sh has made, or the folder of the environment variable MILLSTREAM_WEB. */
export const built = process.env.MILLSTREAM_WEB ?? fileURLToPath(new URL('../../../../target/web', import.meta.url));
if (!existsSync(`${built}/app.js`)) throw new Error(`there is no dashboard in ${built}: run scripts/web.sh`);

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Starts chromium: the one of the environment variable MILLSTREAM_CHROMIUM, or Debian's. */
export const launch = () =>
  chromium.launch({
    executablePath: process.env.MILLSTREAM_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });

/**
 * Opens a page of its own context. `page.wrongs` collects errors of the console, exceptions, violations of the CSP and
 * requests to others; `expected` matches those that a test brings about.
 */
export async function open(browser, url, { width = 1280, height = 900, theme = 'light', expected = null } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.wrongs = [];
  const note = (text) => {
    if (!expected?.test(text)) page.wrongs.push(text);
  };
  page.on('console', (message) => message.type() === 'error' && note(message.text()));
  page.on('pageerror', (error) => note(String(error)));
  const { origin } = new URL(url);
  page.on(
    'request',
    (request) => request.url().startsWith(origin) || request.url().startsWith('data:') || note(`asks ${request.url()}`),
  );
  await page.goto(url);
  return page;
}

/** Nothing went wrong in the page; closes it. */
export async function close(page) {
  const { wrongs } = page;
  await page.context().close();
  assert.deepEqual(wrongs, []);
}

/**
 * What axe finds wrong, as text; empty when nothing is: by all its rules, or by those that are named. The CSP forbids
 * scripts in the page, so that axe comes through the debugger.
 */
export async function axe(page, rules = null) {
  await page.evaluate(axeSource);
  return page.evaluate(async (runOnly) => {
    const { violations } = await globalThis.axe.run(document, {
      resultTypes: ['violations'],
      ...(runOnly && { runOnly }),
    });
    return violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes
          .slice(0, 3)
          .map((node) => `${node.html.slice(0, 160)} ${node.any.map((c) => c.message).join(' ')}`)
          .join(' | ')}`,
    );
  }, rules);
}

/** The text of something, with plain spaces. */
export const textOf = async (locator) => (await locator.innerText()).replaceAll('\u00a0', ' ');

export { until } from './until.mjs';

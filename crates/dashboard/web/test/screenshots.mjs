// Makes the pictures of the documentation: `node test/screenshots.mjs BINARY FOLDER`. It runs jobs for a minute and a
// half, so that charts have something to show.
import { mkdirSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

const [binary, folder] = process.argv.slice(2);
if (!folder) throw new Error('usage: node test/screenshots.mjs BINARY FOLDER');
process.env.MILLSTREAM_BINARY = resolve(binary);
const { clicks, deaf, freePort, place, q5, run, sendClicks, toDeaf } = await import('./real.mjs');
const { launch, open, until } = await import('./browser.mjs');

/** The most bytes of a picture. */
const MOST = 120_000;
/** How long jobs run before the first picture. */
const SECONDS = 90;
const CONNECTIONS = 8;

/** Filters whose order is worth changing. */
const adaptive = `
  CREATE TABLE events (
    event_type INT, bid ROW<auction BIGINT, price BIGINT, channel STRING, \`dateTime\` TIMESTAMP(3)>,
    ts AS bid.\`dateTime\`, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
  ) WITH ('connector' = 'nexmark');
  CREATE TABLE expensive (auction BIGINT, price BIGINT) WITH ('connector' = 'blackhole');
  INSERT INTO expensive SELECT bid.auction, bid.price FROM events
    WHERE event_type = 2 AND bid.channel LIKE '%oo%' AND bid.price > 1000000`;

const PICTURES = [
  { name: 'overview', job: 'hot', page: '#/jobs/hot_items', text: 'No problems found.', height: 900 },
  {
    name: 'overview-dark',
    job: 'hot',
    page: '#/jobs/hot_items',
    text: 'No problems found.',
    height: 900,
    theme: 'dark',
  },
  {
    name: 'graph',
    job: 'stuck',
    page: '#/jobs/warehouse/graph?node=sink%200',
    text: 'source 0: table orders waits',
    height: 820,
  },
  { name: 'splits', job: 'clicks', page: '#/jobs/views/splits', text: 'holds the watermark of', height: 720 },
  { name: 'code', job: 'adaptive', page: '#/jobs/expensive/code', text: 'Variants', height: 800 },
];

mkdirSync(folder, { recursive: true });
const at = place();
try {
  await pictures();
} finally {
  await at.close();
}

async function pictures() {
  const port = await freePort();
  const jobs = {
    hot: await run(at, q5(10_000), ['--state-dir', 'state']),
    clicks: await run(at, clicks(port, CONNECTIONS)),
    stuck: await run(at, toDeaf(await deaf(at))),
  };
  await sendClicks(at, port, CONNECTIONS);
  const runs = async (job) => (await jobs[job].get('/jobs'))?.jobs[0]?.running_s;
  const browser = await launch();
  at.atTheEnd(() => browser.close());
  await until(async () => (await runs('hot')) > SECONDS, `${SECONDS} s`, 2 * SECONDS);
  for (const { name, job, page: hash, text, height, theme } of PICTURES) {
    // It takes all cores, so that it begins when the others have been taken.
    if (job === 'adaptive') {
      jobs.adaptive = await run(at, adaptive);
      await until(async () => (await runs('adaptive')) > 20, '20 s', 40);
    }
    const page = await open(browser, jobs[job].url + hash, { height, theme, expected: /409/ });
    await page.getByText(text).first().waitFor();
    // Rates are known with the second answer, and are drawn when there is a third.
    for (let i = 0; i < 3; i += 1) await page.waitForResponse(/\/stats$/);
    const file = `${folder}/dashboard-${name}.png`;
    await page.screenshot({ path: file });
    await page.context().close();
    const { size } = statSync(file);
    console.log(`${file}: ${Math.round(size / 1000)} kB`);
    if (size > MOST) process.exitCode = 1;
  }
}

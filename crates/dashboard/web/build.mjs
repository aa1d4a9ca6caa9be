// Builds the dashboard: `node build.mjs [FOLDER]` writes index.html, app.js, app.css and icon.svg. Names have no
// hashes, as the server embeds the files and answers with an ETag.
import { build } from 'esbuild';
import { appendFileSync, copyFileSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

/** Everything together, compressed as the server sends it. */
const MOST_BYTES = 150 * 1024;

const here = dirname(fileURLToPath(import.meta.url));
const folder = resolve(process.argv[2] ?? join(here, '../../../target/web'));
mkdirSync(folder, { recursive: true });

const outcome = await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.js' },
  outdir: folder,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['es2022'],
  charset: 'utf8',
  metafile: true,
  legalComments: 'none',
  logLevel: 'warning',
});
for (const name of ['index.html', 'icon.svg']) copyFileSync(join(here, 'src', name), join(folder, name));

// What others wrote is named with its licence in the file that contains it.
const packages = new Set(
  Object.keys(outcome.metafile.inputs).flatMap((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []),
);
const script = join(folder, 'app.js');
appendFileSync(script, `/*\n${[...packages].sort().map(notice).join('\n')}*/\n`);

const files = ['index.html', 'app.js', 'app.css', 'icon.svg'];
const bytes = files.reduce((sum, name) => sum + gzipSync(readFileSync(join(folder, name)), { level: 9 }).length, 0);
console.log(`dashboard: ${(bytes / 1024).toFixed(1)} KB gzip of at most ${MOST_BYTES / 1024} KB, in ${folder}`);
if (bytes > MOST_BYTES) {
  console.error('error: the dashboard is too large');
  process.exit(1);
}

/** The licence of a package: in full where it asks for that; Apache's is Millstream's own. */
function notice(name) {
  const at = join(here, 'node_modules', name);
  const { version, license } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8'));
  if (!['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0'].includes(license)) {
    throw new Error(`the licence of ${name}, ${license}, is not one that may be shipped`);
  }
  const file = readdirSync(at).find((entry) => /^licen[cs]e/i.test(entry));
  const text =
    license === 'Apache-2.0' || !file ? '' : readFileSync(join(at, file), 'utf8').replaceAll('*/', '* /').trim();
  return `${name} ${version} (${license})\n${text}\n`;
}

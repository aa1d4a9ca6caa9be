// The server of the dashboard, played from fixtures: the built files with the real Content-Security-Policy, and the API
// with numbers that advance. `node test/mock.mjs FOLDER [PORT]` serves it to people.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { jobs, summary } from './jobs.mjs';

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const TYPES = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/**
 * Starts a server. What it returns can be changed while it runs: `isGone` (it does not answer), `token`, `actions`,
 * `jobs`; `asked` are the paths that were asked for, `posts` the actions that came.
 */
export async function startMock(folder, { port = 0, token = null } = {}) {
  const mock = {
    isGone: false,
    token,
    actions: true,
    jobs: { ...jobs },
    asked: [],
    posts: [],
    startedAt: Date.now() - 900_000,
    stopped: new Set(),
  };
  const server = createServer((request, response) => answer(mock, folder, request, response));
  // A test that fails leaves its server behind, and ends nevertheless.
  server.unref();
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  mock.url = `http://127.0.0.1:${server.address().port}/`;
  mock.close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return mock;
}

function answer(mock, folder, request, response) {
  const { pathname } = new URL(request.url, 'http://localhost');
  const isApi = pathname === '/api/v1' || pathname.startsWith('/api/v1/');
  if (mock.isGone && isApi) return request.socket.destroy();
  response.setHeader('Content-Security-Policy', CSP);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Cache-Control', 'no-store');
  if (!isApi) return file(folder, pathname === '/' ? 'index.html' : pathname.slice(1), response);
  mock.asked.push(pathname);
  const say = (status, body) => {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const fail = (status, message, advice = null) => say(status, { error: { code: null, message, advice } });
  if (mock.token && request.headers.authorization !== `Bearer ${mock.token}`) return fail(401, 'a token is needed');
  const parts = pathname.split('/').slice(3).map(decodeURIComponent);
  if (request.method === 'POST') return act(mock, request, parts, say, fail);
  if (parts.length === 0) return say(200, { version: '0.1.0', commit: '', mode: 'serve', actions: mock.actions });
  const at = (Date.now() - mock.startedAt) / 1000;
  if (parts.length === 1)
    return say(200, { jobs: Object.values(mock.jobs).map((job) => shown(mock, summary(job, at))) });
  const job = mock.jobs[parts[1]];
  if (!job) return fail(404, `there is no job ${parts[1]}`, 'GET /api/v1/jobs lists the jobs.');
  if (parts.length === 2)
    return say(200, {
      ...shown(mock, summary(job, at)),
      sql: job.sql,
      state_dir: job.stateDir ?? null,
      nodes: job.nodes ?? 1,
      can_rescale: Boolean(job.nodes),
    });
  const part = job[parts[2]];
  if (!part)
    return fail(
      parts[2] === 'stats' ? 409 : 404,
      parts[2] === 'stats' ? 'the job has not begun' : `there is nothing at ${pathname}`,
    );
  try {
    return say(200, part(at));
  } catch (error) {
    return fail(500, error.message);
  }
}

const shown = (mock, job) => (mock.stopped.has(job.id) ? { ...job, state: 'stopping' } : job);

function act(mock, request, parts, say, fail) {
  if (request.headers['x-millstream-action'] !== '1') return fail(403, 'the header X-Millstream-Action is missing');
  if (!mock.actions) return fail(403, 'actions are off');
  let body = '';
  request.on('data', (piece) => (body += piece));
  request.on('end', () => {
    mock.posts.push({ path: parts.join('/'), body: body ? JSON.parse(body) : null });
    if (parts[2] === 'stop') mock.stopped.add(parts[1]);
    say(202, {
      message: {
        stop: 'the job stops with a checkpoint',
        checkpoint: 'a checkpoint has been asked for',
        rescale: 'the job is rescaled',
      }[parts[2]],
    });
  });
}

function file(folder, name, response) {
  try {
    const text = readFileSync(join(folder, name.replaceAll('..', '')));
    response.writeHead(200, { 'Content-Type': TYPES[name.split('.').at(-1)] ?? 'text/plain' });
    response.end(text);
  } catch {
    response.writeHead(404);
    response.end();
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const mock = await startMock(process.argv[2], { port: Number(process.argv[3] ?? 7480) });
  setInterval(() => {}, 60_000);
  console.log(`the dashboard is at ${mock.url}`);
}

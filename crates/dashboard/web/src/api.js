// Asks the server: polls while the tab is visible, asks less often while the server does not answer, and knows how old
// things are.
import { useEffect, useReducer } from 'preact/hooks';

const ROOT = '/api/v1';
const TOKEN = 'millstream-token';
const PATIENCE_MS = 10_000;
const SLOWEST_MS = 8_000;

/** An answer that says what is wrong. */
export class ApiError extends Error {
  constructor(status, { code = null, message, advice = null } = {}) {
    super(message ?? `the server answered with status ${status}`);
    Object.assign(this, { status, code, advice });
  }
}

/** Whether the server answers. There is one for all that is asked. */
const connection = {
  /** When the last answer came (performance.now()); of the page's start at first. */
  answeredAt: performance.now(),
  failures: 0,
  /** null, 'asked' when a token is needed, 'refused' when one was given that is wrong. */
  token: null,
};
const listeners = new Set();
const tell = () => listeners.forEach((listener) => listener());

/** Draws again whenever something about the connection changes. */
export function useConnection() {
  const [, draw] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    listeners.add(draw);
    return () => listeners.delete(draw);
  }, []);
  return connection;
}

function answered() {
  connection.answeredAt = performance.now();
  if (connection.failures === 0) return;
  connection.failures = 0;
  tell();
  polls.forEach((poll) => poll.later(poll.every));
}

async function request(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(ROOT + path, { ...options, headers, signal: AbortSignal.timeout(PATIENCE_MS) });
  if (response.status === 401) {
    connection.token = token ? 'refused' : 'asked';
    tell();
  }
  const text = await response.text();
  // A proxy that says that the server is away says so in HTML.
  if (!response.headers.get('content-type')?.includes('json'))
    throw new Error(`${path} is answered with something else than JSON`);
  const body = JSON.parse(text);
  if (!response.ok) throw new ApiError(response.status, body.error);
  return body;
}

/** Has the server do something; throws an ApiError with the reason when it does not. */
export const act = (path, body) =>
  request(path, {
    method: 'POST',
    headers: { 'X-Millstream-Action': '1', ...(body && { 'Content-Type': 'application/json' }) },
    body: body && JSON.stringify(body),
  });

export function giveToken(token) {
  sessionStorage.setItem(TOKEN, token);
  connection.token = null;
  tell();
  polls.forEach((poll) => poll.wake());
}

export function tryNow() {
  polls.forEach((poll) => poll.wake());
}

const polls = new Map();
/** The last answers of polls that nobody uses: shown until the next ones come, so that going back does not flicker. */
const kept = new Map();

/** Something that is asked for again and again, for as long as a page shows it. */
class Poll {
  constructor(path, { every, keep, once }) {
    Object.assign(this, { path, every, keep, once, users: new Set(), timer: 0, asking: false });
    /** @type {{at: number, data: any}[]} the last answers, newest last */
    this.answers = [];
    this.error = null;
  }

  /** Asks after some milliseconds, unless it is asking. */
  later(milliseconds) {
    clearTimeout(this.timer);
    if (!this.asking && this.users.size > 0) this.timer = setTimeout(() => this.wake(), milliseconds);
  }

  wake() {
    clearTimeout(this.timer);
    const isDone = this.once && this.answers.length > 0;
    if (!this.asking && !isDone && this.users.size > 0) this.ask();
  }

  async ask() {
    if (document.hidden || connection.token) return; // Woken when the tab is visible, or when there is a token.
    this.asking = true;
    let next = this.every;
    try {
      const data = await request(this.path);
      this.answers = [...this.answers, { at: performance.now(), data }].slice(-this.keep);
      this.error = null;
      answered();
      if (this.once) next = null;
    } catch (error) {
      if (error instanceof ApiError) {
        if (error.status !== 401) answered();
        this.error = error;
        next = Math.max(next, error.status === 409 ? 1000 : 3000);
      } else {
        connection.failures += 1;
        next = Math.min(SLOWEST_MS, 1000 * 2 ** Math.min(6, connection.failures / Math.max(1, polls.size)));
        tell();
      }
    }
    this.asking = false;
    this.users.forEach((draw) => draw());
    if (next != null) this.later(next);
  }
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) tryNow();
});

/**
 * What the server says at `path` (null: nothing is asked), again every `every` milliseconds.
 * `answers` are the last `keep` ones, newest last, for differences between them.
 */
export function usePoll(path, { every = 1000, keep = 1, once = false, paused = false } = {}) {
  const [, draw] = useReducer((n) => n + 1, 0);
  const asked = paused ? null : path;
  useEffect(() => {
    if (asked == null) return undefined;
    let poll = polls.get(asked);
    if (!poll) polls.set(asked, (poll = new Poll(asked, { every, keep, once })));
    poll.keep = Math.max(poll.keep, keep);
    poll.users.add(draw);
    poll.wake();
    return () => {
      poll.users.delete(draw);
      if (poll.users.size > 0) return;
      clearTimeout(poll.timer);
      polls.delete(asked);
      kept.set(asked, poll.answers);
      while (kept.size > 20) kept.delete(kept.keys().next().value);
    };
  }, [asked, every, keep, once]);
  const poll = polls.get(path);
  const answers = poll?.answers.length ? poll.answers : (kept.get(path) ?? []);
  return { data: answers.at(-1)?.data, answers, error: poll?.error ?? null };
}

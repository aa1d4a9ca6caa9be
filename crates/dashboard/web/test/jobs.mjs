// Jobs of the mock: two that were recorded, and what becomes of them when something is wrong. Each part is a function
// of the seconds since the job has begun.
import { readFileSync } from 'node:fs';

const load = (name) => JSON.parse(readFileSync(new URL(`fixtures/${name}.json`, import.meta.url), 'utf8'));
const [hotStats, hotPlan, hotCode] = ['hot_items.stats', 'hot_items.plan', 'hot_items.code'].map(load);
const [pricedStats, pricedPlan] = ['priced.stats', 'priced.plan'].map(load);

const copy = (value) => structuredClone(value);
const none = { in_flight_s: 0, memory_s: 0, behind_s: 0, now: null };
/** The event time of rows that come now. */
const watermark = (behind = 4.2) => Math.round(Date.now() - behind * 1000);
/** A number between -1 and 1 that goes up and down. */
const wave = (at, period) => Math.sin((at * 2 * Math.PI) / period);

/** The statistics of a job whose counters grow as they did while they were recorded. */
function advanced(recorded, at) {
  const stats = copy(recorded);
  const factor = at / recorded.elapsed_s;
  const counters = ['rows_in', 'bytes_in', 'rows_out', 'windows', 'buffers'];
  for (const key of counters) stats[key] = Math.round(stats[key] * factor);
  stats.elapsed_s = at;
  stats.watermark_ms = watermark();
  for (const list of ['sources', 'pipelines', 'aggregations', 'operators', 'sinks', 'workers']) {
    for (const part of stats[list]) {
      for (const key of ['rows', 'bytes', 'chunks', 'rows_in', 'rows_out', 'windows', 'jobs', 'tasks', 'buffers'])
        if (key in part) part[key] = Math.round(part[key] * factor);
      if ('busy_s' in part) part.busy_s *= factor;
      for (const key of ['task_time', 'decode_time', 'trigger_delay'])
        if (part[key])
          Object.assign(part[key], { count: Math.round(part[key].count * factor), sum_s: part[key].sum_s * factor });
      if (part.watermark_ms != null) part.watermark_ms = stats.watermark_ms;
      for (const split of part.splits ?? []) {
        split.rows = Math.round(split.rows * factor);
        split.chunks = Math.round(split.chunks * factor);
        Object.assign(split, { watermark_ms: split.watermark_ms && stats.watermark_ms, waits: { ...none } });
      }
    }
  }
  stats.aggregations.forEach((part) => (part.state_bytes = 24_580_400 + Math.round(2e6 * wave(at, 2))));
  stats.operators.forEach((part) => (part.state_bytes = 18_240));
  stats.memory.used_bytes += Math.round(3e6 * wave(at, 10));
  stats.samples = [];
  stats.checkpoints.recent = checkpoints(at, 10, (i) => 0.02 + 0.01 * Math.abs(wave(i, 7)));
  const last = stats.checkpoints.recent.at(-1);
  if (last)
    Object.assign(stats.checkpoints, { begun: last.number, complete: last.number, last: last.number, age_s: at % 10 });
  return stats;
}

function checkpoints(at, every, duration) {
  const number = Math.floor(at / every);
  return Array.from({ length: Math.min(50, number) }, (_, i) => {
    const n = number - Math.min(50, number) + 1 + i;
    const d = duration(n);
    return {
      number: n,
      at_ms: Math.round(Date.now() - (at - n * every) * 1000),
      duration_s: d,
      cut_s: d * 0.1,
      write_s: d * 0.65,
      commit_s: d * 0.25,
      written_bytes: 5_864_950 + n,
      state_bytes: 7_283_256,
    };
  });
}

/** The last quarter of an hour, a point each second. */
function history(
  at,
  {
    inRate = 1e6,
    outRate = 0.4,
    used = () => 137e6,
    state = () => 24e6,
    delayed = () => 4.2,
    busy = () => 0.11,
    queued = () => 0,
  } = {},
) {
  const seconds = Array.from(
    { length: Math.min(900, Math.floor(at)) },
    (_, i) => Math.floor(at) - Math.min(900, Math.floor(at)) + 1 + i,
  );
  const now = Date.now();
  const each = (value) => seconds.map(value);
  const grown = (rate) => each((s) => Math.round(rate * (s + 3 * wave(s, 60))));
  return {
    every_s: 1,
    at_ms: each((s) => Math.round(now - (at - s) * 1000)),
    rows_in: grown(inRate),
    rows_out: grown(outRate),
    bytes_in: grown(0),
    queued: each(queued),
    memory_used_bytes: each((s) => Math.round(used(s))),
    state_bytes: each((s) => Math.round(state(s))),
    watermark_ms: each((s) => Math.round(now - (at - s) * 1000 - delayed(s) * 1000)),
    late: grown(0),
    busy: each(busy),
  };
}

const noRows = () => ({
  sinks: [{ name: 'sink 0: out', columns: [{ name: 'item', type: 'STRING' }], rows: [], total: 0, at_ms: Date.now() }],
});

function renamed(stats, plan, table, sink) {
  stats.sources[0].name = `source 0: table ${table}`;
  stats.sinks[0].name = `sink 0: ${sink}`;
  return stats;
}

function planOf(plan, table, sink) {
  const own = copy(plan);
  own.nodes.find(({ id }) => id === 'source 0').title = `table ${table}`;
  own.nodes.find(({ id }) => id === 'sink 0').title = `table ${sink}`;
  return own;
}

const sqlOf = (sink) => hotCode.programs[0].sql.replace('hot_items', sink);

const hotItems = {
  id: 'hot_items',
  file: 'jobs/hot_items.sql',
  sql: sqlOf('hot_items'),
  stateDir: '/var/lib/millstream/hot_items',
  stats: (at) => advanced(hotStats, at),
  plan: () => hotPlan,
  history: (at) =>
    history(at, {
      state: (s) => 24e6 + 2e6 * wave(s, 10),
      used: (s) => 137e6 + 3e6 * wave(s, 10),
      delayed: (s) => 4.2 + 0.3 * wave(s, 20),
      busy: (s) => 0.11 + 0.02 * wave(s, 30),
    }),
  code: () => hotCode,
  rows: (at) => {
    const total = Math.floor(at * 4);
    const columns = [
      { name: 'auction', type: 'BIGINT' },
      { name: 'num', type: 'BIGINT' },
      { name: 'window_start', type: 'TIMESTAMP(3)' },
      { name: 'note', type: 'STRING' },
    ];
    const rows = Array.from({ length: Math.min(100, total) }, (_, i) => {
      const n = total - Math.min(100, total) + i;
      return [
        String(1000 + (n % 37)),
        String(400 + Math.round(200 * wave(n, 40))),
        new Date(Date.UTC(2026, 10, 30) + n * 2000).toISOString().replace('T', ' ').slice(0, 23),
        n % 5 ? 'hot' : null,
      ];
    });
    return { sinks: [{ name: 'sink 0: hot_items', columns, rows, total, at_ms: Date.now() }] };
  },
};

const stuck = {
  id: 'bids_to_kafka',
  file: 'jobs/bids.sql',
  sql: sqlOf('bids'),
  stateDir: '/var/lib/millstream/bids',
  problems: [
    {
      kind: 'sink-stuck',
      severity: 'error',
      subject: 'sink 0: bids',
      split: null,
      text: 'sink 0: bids has been busy with one write for 42 s; does its reader or server still take rows?',
      advice: 'Look at the broker, and at whatever is between it and this machine.',
    },
  ],
  stats: (at) => {
    const stats = renamed(advanced(hotStats, at), hotPlan, 'bid', 'bids');
    Object.assign(stats.sinks[0], { rows: 812_400, busy_s: 31.5, writing_s: at - 858 });
    stats.rows_out = 812_400;
    stats.queued = 12;
    stats.pipelines[2].queued = 12;
    const [source] = stats.sources;
    Object.assign(source, { rows: 24_969_216, queued: 4 });
    stats.rows_in = 24_969_216;
    Object.assign(source.splits[0], {
      name: 'bid-0',
      rows: source.rows,
      silent_s: at - 858,
      waits: { in_flight_s: Math.max(0, at - 858) * 0.98, memory_s: 0.4, behind_s: 0, now: 'in-flight' },
    });
    stats.workers.forEach((worker) => (worker.busy_s = 2.7));
    return stats;
  },
  plan: () => planOf(hotPlan, 'bid', 'bids'),
  history: (at) =>
    history(at, {
      inRate: 0,
      outRate: 0,
      queued: (s) => (s > 858 ? 12 : 0),
      delayed: (s) => Math.max(4, s - 858),
      busy: () => 0.01,
    }),
  rows: noRows,
};

const clicks = {
  id: 'clicks',
  file: 'jobs/clicks.sql',
  sql: sqlOf('clicks_out'),
  stateDir: '/var/lib/millstream/clicks',
  problems: [
    {
      kind: 'split-holds-watermark',
      severity: 'warning',
      subject: 'source 0: table clicks',
      split: 'clicks/part-0417.jsonl',
      text: "windows of source 0: table clicks wait for 'clicks/part-0417.jsonl', which has sent no rows for 14 min",
      advice: "'scan.watermark.idle-timeout' = '10 s' in its WITH (…) has them continue without it.",
    },
  ],
  stats: (at) => {
    const stats = renamed(advanced(hotStats, at), hotPlan, 'clicks', 'clicks_out');
    const [source] = stats.sources;
    source.split_count = 1000;
    source.idle_splits = 20;
    source.splits = Array.from({ length: 1000 }, (_, i) => {
      const isHeld = i === 417;
      const [idle, ended] = [i % 50 === 7, i % 100 === 31];
      const rows = isHeld ? 240 : Math.round((1000 + i) * at);
      return {
        name: `clicks/part-${String(i).padStart(4, '0')}.jsonl`,
        rows,
        bytes: rows * 212,
        chunks: Math.ceil(rows / 4000),
        queued: i % 9 === 0 ? 1 : 0,
        watermark_ms: ended ? null : isHeld ? mockStart + 60_000 : watermark(5 + (i % 60) / 10),
        idle,
        ended,
        lag_records: i % 2 ? 40 + (i % 300) : 0,
        node: 0,
        trouble: null,
        silent_s: isHeld ? at - 60 : idle ? 300 + i : (i % 10) / 10,
        waits: { ...none, behind_s: i % 100 === 3 ? at * 0.2 : 0, now: null },
      };
    });
    source.watermark_ms = mockStart + 60_000;
    stats.watermark_ms = source.watermark_ms;
    source.lag_records = source.splits.reduce((sum, split) => sum + split.lag_records, 0);
    return stats;
  },
  plan: () => planOf(hotPlan, 'clicks', 'clicks_out'),
  history: (at) => history(at, { delayed: (s) => Math.max(4, s - 60) }),
  rows: noRows,
};
const mockStart = Date.now() - 900_000;

const growing = {
  id: 'priced',
  file: 'jobs/priced.sql',
  sql: 'INSERT INTO out\nSELECT b.bid.auction, a.auction.itemName, b.bid.price\nFROM bids b JOIN auctions a ON b.bid.auction = a.auction.id',
  stateDir: null,
  problems: [
    {
      kind: 'state-grows',
      severity: 'warning',
      subject: 'operator 0',
      split: null,
      text: 'operator 0, a regular join, keeps every row of both sides: 212 MiB, 9.1 MiB more each minute',
      advice: "A time bound in the join condition, or SET 'table.exec.state.ttl' = '1 h'.",
    },
  ],
  stats: (at) => {
    const stats = advanced(pricedStats, at);
    const state = Math.round(60e6 + at * 159_000);
    stats.operators[0].state_bytes = state;
    stats.memory.by_class.operators = state;
    stats.memory.used_bytes = state + 30_000_000;
    stats.memory.by_class.other = 30_000_000;
    stats.memory.peak_bytes = state + 34_000_000;
    Object.assign(stats.spill, {
      written_bytes: Math.round(at * 40_000),
      read_bytes: Math.round(at * 10_000),
      files: 24,
      held_bytes: Math.round(at * 30_000),
    });
    stats.checkpoints = { ...stats.checkpoints, begun: 0, complete: 0, last: null, age_s: null, recent: [] };
    Object.assign(stats, {
      records_late_total: Math.round(at * 3),
      records_malformed_total: 41,
      records_failed_total: 7,
      first_error: "error[MS3002]: division by zero\n  price / quantity, in row 88,214 of 'bids.jsonl'",
    });
    stats.samples = [
      { kind: 'malformed', at_ms: Date.now() - 70_000, text: '{"auction": 1007, "price": ' },
      { kind: 'failed', at_ms: Date.now() - 40_000, text: 'price=1200, quantity=0: division by zero' },
      { kind: 'late', at_ms: Date.now() - 5_000, text: '+I[1007, 2026-11-30 18:00:01.000]' },
    ];
    stats.cycles_per_nano = null;
    return stats;
  },
  plan: () => pricedPlan,
  history: (at) =>
    history(at, {
      inRate: 2e5,
      outRate: 1.8e5,
      state: (s) => 60e6 + s * 159_000,
      used: (s) => 90e6 + s * 159_000,
      busy: (s) => 0.4 + 0.05 * wave(s, 40),
    }),
  rows: noRows,
};

const cluster = {
  id: 'sessions',
  file: 'jobs/sessions.sql',
  sql: sqlOf('sessions'),
  stateDir: 's3://state/sessions',
  nodes: 3,
  problems: [
    {
      kind: 'node-silent',
      severity: 'error',
      subject: 'node 2',
      split: null,
      text: 'node 2 has told nothing for 24 s',
      advice: 'A process in its place is waited for until 60 s are over.',
    },
  ],
  stats: (at) => {
    const stats = renamed(advanced(hotStats, at), hotPlan, 'visits', 'sessions');
    // Node 2 takes nothing.
    const lane = (to, used) => ({
      to,
      credit_bytes: 16 << 20,
      unfinished_bytes: used,
      unsent_bytes: used === 16 << 20 ? 3_400_000 : 0,
    });
    const node = (number, rate, more) => ({
      node: number,
      age_s: 0.4,
      elapsed_s: at,
      replaced: 0,
      rows_in: Math.round(rate * at),
      rows_out: Math.round(at * 30),
      rows_per_second: rate,
      watermark_ms: watermark(),
      state_bytes: 8e6 + number,
      sent_bytes: Math.round(rate * at * 20),
      lanes: [0, 1, 2].filter((to) => to !== number).map((to) => lane(to, to === 2 ? 16 << 20 : 1 << 20)),
      lost: null,
      ...more,
    });
    stats.nodes = [
      node(0, 410_000, { age_s: 0 }),
      node(1, 380_000, { replaced: 1 }),
      node(2, 0, { age_s: 24 + (at - 900), rows_in: 98_000_000, sent_bytes: 1.9e9, watermark_ms: watermark(30) }),
    ];
    stats.events.push({
      at_s: 610,
      kind: 'adapted',
      subject: 'node 1',
      observed: 'the connection to node 1 broke',
      decided: '10.0.0.7:7420 takes its place from checkpoint 41 on',
      nanos_per_row_before: null,
      nanos_per_row_after: null,
    });
    return stats;
  },
  plan: () => planOf(hotPlan, 'visits', 'sessions'),
  history: (at) => history(at, { inRate: 8e5 }),
  rows: noRows,
};

const restless = {
  id: 'ratings',
  file: 'jobs/ratings.sql',
  sql: sqlOf('ratings'),
  stateDir: '/var/lib/millstream/ratings',
  problems: [
    {
      kind: 'recompiles',
      severity: 'warning',
      subject: 'pipeline 0',
      split: null,
      text: 'pipeline 0 was compiled 31 times in 5 minutes: its columns change too often',
      advice: "SET 'pipeline.adaptive' = 'never' keeps the generic code.",
    },
  ],
  stats: (at) => {
    const stats = renamed(advanced(hotStats, at), hotPlan, 'rating', 'ratings');
    const event = (ago, kind, observed, decided, before = null, after = null) => ({
      at_s: at - ago,
      kind,
      subject: 'pipeline 0',
      observed,
      decided,
      nanos_per_row_before: before,
      nanos_per_row_after: after,
    });
    for (let ago = 290; ago > 5; ago -= 10) {
      stats.events.push(
        event(ago, 'trial', 'country is FR in 10240 sampled rows', 'variant 7 on trial: country is FR', 31.2, 22.4),
      );
      stats.events.push(
        event(
          ago - 2,
          'adopted',
          'variant 7 costs 22.40 ns a row instead of 31.20 ns',
          'variant 7 from now on',
          31.2,
          22.4,
        ),
      );
      stats.events.push(
        event(
          ago - 5,
          'deoptimised',
          'values of country broke what variant 7 assumes in 61 of 64 buffers',
          'back to variant 1, the generic one',
        ),
      );
      stats.compilations.push({
        program: 'pipeline 0',
        time_s: 0.061,
        code_bytes: 3790,
        origin: 'compiled',
        reused: false,
        cache_problem: null,
      });
    }
    return stats;
  },
  plan: () => planOf(hotPlan, 'rating', 'ratings'),
  history: (at) => history(at),
  code: () => {
    const code = copy(hotCode);
    const [generic] = code.programs[0].variants;
    generic.number = null;
    generic.tier = null;
    const special = { number: 7, tier: 'compiled', choices: 'country constant' };
    const program = generic.program.replace('program "pipeline 0"', 'program "pipeline 0, country constant"');
    code.programs[0].variants.push({ ...generic, ...special, program });
    return code;
  },
  rows: noRows,
};

const failed = {
  id: 'invoices',
  file: 'jobs/invoices.sql',
  sql: sqlOf('invoices'),
  state: 'failed',
  restarts: 3,
  runningS: 12.4,
  error:
    "error[MS4004]: malformed record\n  line 17 of 'invoices.jsonl': expected ',' or '}'\n  help: 'json.ignore-parse-errors' = 'true' leaves such records out",
  problems: [
    {
      kind: 'job-failed',
      severity: 'error',
      subject: 'invoices',
      split: null,
      text: 'the job has failed and is not started again',
      advice: 'Correct the record at the place shown; the job then goes on.',
    },
  ],
  plan: () => planOf(hotPlan, 'invoice', 'invoices'),
  history: () => history(0),
};

export const jobs = Object.fromEntries(
  [hotItems, stuck, clicks, growing, cluster, restless, failed].map((job) => [job.id, job]),
);

/** What the list of jobs says of one. */
export function summary(job, at) {
  const now = job.stats?.(at);
  const before = job.stats?.(at - 1);
  const rate = (key) => (now ? Math.max(0, now[key] - before[key]) : 0);
  return {
    id: job.id,
    name: job.id,
    state: job.state ?? 'running',
    since_ms: Math.round(Date.now() - at * 1000),
    running_s: job.runningS ?? at,
    restarts: job.restarts ?? 0,
    rows_in: now?.rows_in ?? 0,
    rows_out: now?.rows_out ?? 0,
    rows_in_per_s: rate('rows_in'),
    rows_out_per_s: rate('rows_out'),
    bytes_in_per_s: rate('bytes_in'),
    watermark_ms: now?.watermark_ms ?? null,
    memory_used_bytes: now?.memory.used_bytes ?? 0,
    memory_limit_bytes: now?.memory.limit_bytes ?? 0,
    late: now?.records_late_total ?? 0,
    malformed: now?.records_malformed_total ?? 0,
    failed: now?.records_failed_total ?? 0,
    checkpoint_age_s: job.stateDir && now ? now.checkpoints.age_s : null,
    error: job.error ?? null,
    file: job.file,
    problems: job.problems ?? [],
  };
}

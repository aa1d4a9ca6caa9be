// What happened between two answers: rates, busy shares, waits.

/**
 * The newest statistics and those of some seconds before, of the same run: counters fall when a job restarts.
 * @returns {{now: any, before: any|null, seconds: number}}
 */
export function span(answers) {
  const now = answers.at(-1)?.data ?? null;
  const isSameRun = ({ data }) => data.elapsed_s < now.elapsed_s && data.rows_in <= now.rows_in;
  const before = (now && answers.slice(0, -1).find(isSameRun)?.data) ?? null;
  return { now, before, seconds: before ? now.elapsed_s - before.elapsed_s : 0 };
}

const byName = (list, name, more = () => true) => list?.find((item) => item.name === name && more(item));

/** By how much something grew in a second; null until two answers are there. */
export function perSecond({ before, now, seconds }, get) {
  if (!before) return null;
  const [then, value] = [get(before), get(now)];
  return then == null || value == null ? null : Math.max(0, value - then) / seconds;
}

/** The same, of one of the parts that are in a list by name. */
export const partPerSecond = (between, list, name, get) =>
  perSecond(between, (stats) => optional(byName(stats[list], name), get));

const optional = (item, get) => (item === undefined ? null : get(item));

/** The share of the workers that were busy. */
export function workersBusy(between) {
  const busy = perSecond(between, ({ workers }) => workers.reduce((sum, worker) => sum + worker.busy_s, 0));
  return busy == null || between.now.workers.length === 0 ? null : Math.min(1, busy / between.now.workers.length);
}

/**
 * The share of the time that a sink wrote. A write that is under way counts when it is over, so that it is looked at,
 * too.
 */
export function sinkBusy(between, sink) {
  if (Math.max(sink.writing_s ?? 0, sink.committing_s ?? 0) >= Math.max(1, between.seconds)) return 1;
  const busy = partPerSecond(between, 'sinks', sink.name, (s) => s.busy_s);
  return busy == null ? null : Math.min(1, busy);
}

/** Splits of several nodes may have the same names. */
const splitKey = (split) => `${split.node ?? 0} ${split.name}`;

const RULES = [
  ['in_flight_s', 'in-flight'],
  ['memory_s', 'memory'],
  ['behind_s', 'behind'],
];

/**
 * How the splits of a source waited: `share` of the time of the one that waited most, its `rule` and `split`, and
 * `waits` by split. null when the server does not count it.
 */
export function waits({ before, now, seconds }, name) {
  const source = byName(now?.sources, name);
  if (!source?.splits.some((split) => split.waits)) return null;
  const then = new Map(byName(before?.sources, name)?.splits.map((split) => [splitKey(split), split.waits]));
  const bySplit = new Map();
  let most = { share: 0, rule: null, split: null };
  for (const split of source.splits) {
    if (!split.waits) continue;
    const old = then.get(splitKey(split));
    const shares = RULES.map(([field, rule]) => ({
      rule,
      share: old ? Math.min(1, Math.max(0, split.waits[field] - old[field]) / seconds) : 0,
    }));
    const longest = shares.reduce((a, b) => (b.share > a.share ? b : a));
    const share = Math.min(
      1,
      shares.reduce((sum, entry) => sum + entry.share, 0),
    );
    const found = { share, rule: share > 0 ? longest.rule : split.waits.now, split };
    bySplit.set(splitKey(split), found);
    if (share > most.share) most = found;
  }
  return { ...most, bySplit };
}

export const waitOf = (found, split) => found?.bySplit.get(splitKey(split)) ?? null;

/**
 * The split that holds the watermark of a source back: the lowest watermark among those that are neither idle nor at
 * their end.
 */
export function holder(source) {
  const open = source.splits.filter((split) => !split.idle && !split.ended);
  if (open.length < 2) return null;
  const value = (split) => split.watermark_ms ?? -Infinity;
  const lowest = open.reduce((a, b) => (value(b) < value(a) ? b : a));
  const next = Math.min(...open.filter((split) => split !== lowest).map(value));
  return next > value(lowest)
    ? { split: lowest, aheadMs: Number.isFinite(value(lowest)) && Number.isFinite(next) ? next - value(lowest) : null }
    : null;
}

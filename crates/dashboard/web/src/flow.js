// What flows through the plan: numbers of each node, and where rows wait and why.
import { partPerSecond, sinkBusy, waits, workersBusy } from './differences.js';
import { percent } from './format.js';

/** Below this share of the time nobody minds that a source waits. */
export const NOTED = 0.1;
export const HIGH = 0.5;
/** A sink or the workers that are busy for more than this are why others wait. */
const SATURATED = 0.8;

/** The part of a name in the statistics by which the plan knows it: "sink 0" of "sink 0: bids". */
export const idOf = (name) => name.split(':')[0];

/**
 * The part of the statistics that a node of the plan is: `{list, part}`, or null (a lookup table, or before the first
 * row).
 */
function partOf(stats, id) {
  for (const list of ['sources', 'pipelines', 'aggregations', 'operators', 'sinks']) {
    const part = stats?.[list].find((item) => idOf(item.name) === id);
    if (part) return { list, part };
  }
  return null;
}

/** Numbers of a node: rates in rows/s, busy as a share of one worker's (a sink's) time or of all workers. */
export function numbers(between, id) {
  const found = partOf(between.now, id);
  if (!found) return { list: null, part: null, rate: null, busy: null, queued: null, stateBytes: null };
  const { list, part } = found;
  const workers = Math.max(1, between.now.workers.length);
  const change = (get) => partPerSecond(between, list, part.name, get);
  const share = (get) => {
    const busy = change(get);
    return busy == null ? null : Math.min(1, busy / workers);
  };
  switch (list) {
    case 'sources':
      return {
        list,
        part,
        rate: change((s) => s.rows),
        busy: share((s) => s.decode_time.sum_s),
        queued: part.queued,
        stateBytes: null,
      };
    case 'pipelines':
      return {
        list,
        part,
        rate: change((p) => p.rows_in),
        busy: share((p) => p.task_time.sum_s),
        queued: part.queued,
        stateBytes: null,
      };
    case 'sinks':
      return { list, part, rate: change((s) => s.rows), busy: sinkBusy(between, part), queued: null, stateBytes: null };
    default:
      return {
        list,
        part,
        rate: change((o) => o.rows_out),
        busy: share((o) => o.busy_s),
        queued: part.in_flight,
        stateBytes: part.state_bytes ?? null,
      };
  }
}

/** The nodes that can be reached from one, itself included. */
function reached(plan, from, [start, end] = ['from', 'to']) {
  const found = new Set([from]);
  for (const id of found) for (const edge of plan.edges) if (edge[start] === id) found.add(edge[end]);
  return found;
}

/** The edges on the ways between two nodes. */
function ways(plan, from, to) {
  const [below, above] = [reached(plan, from), reached(plan, to, ['to', 'from'])];
  return plan.edges.filter(
    (edge) => below.has(edge.from) && above.has(edge.to) && below.has(edge.to) && above.has(edge.from),
  );
}

export const edgeKey = (edge) => `${edge.from} → ${edge.to}`;

/**
 * Where rows wait: `causes` (a sentence for each source that waits, and for each sink that stands still although nobody
 * counts waits) and `edges`, the share of the time that the source behind each edge waits because of what is at the
 * other end. `isCounted` says whether the server counts waits; null before the job has begun.
 */
export function backpressure(plan, between) {
  const { now } = between;
  const causes = [];
  const edges = new Map();
  const mark = (list, share) =>
    list.forEach((edge) => edges.set(edgeKey(edge), Math.max(share, edges.get(edgeKey(edge)) ?? 0)));
  if (!now) return { causes, edges, isCounted: null };
  let isCounted = false;
  const blamed = new Set();
  for (const source of now.sources) {
    const id = idOf(source.name);
    const found = waits(between, source.name);
    if (!found) continue;
    isCounted = true;
    if (found.share < NOTED) continue;
    const isBehind = found.rule === 'behind';
    const culprit = isBehind ? null : bottleneck(plan, between, id);
    if (culprit) blamed.add(culprit.id);
    const way = culprit?.id ? ways(plan, id, culprit.id) : plan.edges.filter((edge) => edge.from === id);
    mark(way, found.share);
    causes.push({
      source: source.name,
      sourceId: id,
      share: found.share,
      rule: found.rule,
      split: found.split,
      culprit,
      why: why(found.rule, culprit),
    });
  }
  for (const sink of now.sinks) {
    const id = idOf(sink.name);
    if (blamed.has(id) || !isStuck(sink, between)) continue;
    const culprit = { id, text: sinkText(sink, 1) };
    for (const source of plan.nodes.filter((node) => node.kind === 'source')) mark(ways(plan, source.id, id), 1);
    causes.push({ source: null, sourceId: id, share: 1, rule: null, split: null, culprit, why: culprit.text });
  }
  return { causes, edges, isCounted };
}

const isStuck = (sink, between) =>
  Math.max(sink.writing_s ?? 0, sink.committing_s ?? 0) >= Math.max(3, between.seconds);

/** What the readers of a source wait for: the busiest sink behind it, or else the workers and what they do most. */
function bottleneck(plan, between, source) {
  const behind = reached(plan, source);
  const busiest = (list) => list.reduce((a, b) => ((b.busy ?? 0) > (a?.busy ?? 0) ? b : a), null);
  const sink = busiest(
    between.now.sinks.filter((s) => behind.has(idOf(s.name))).map((s) => ({ sink: s, busy: sinkBusy(between, s) })),
  );
  if (sink && sink.busy >= SATURATED) return { id: idOf(sink.sink.name), text: sinkText(sink.sink, sink.busy) };
  const workers = workersBusy(between);
  if (workers == null || workers < SATURATED) return null;
  const node = busiest(
    [...behind].filter((id) => !id.startsWith('sink')).map((id) => ({ id, busy: numbers(between, id).busy })),
  );
  return {
    id: node?.id ?? null,
    text: `the workers are busy ${percent(workers)} of the time${node ? `, most of it (${percent(node.busy)}) with ${node.id}` : ''}`,
  };
}

function sinkText(sink, busy) {
  const writing = Math.max(sink.writing_s ?? 0, sink.committing_s ?? 0);
  const what = (sink.committing_s ?? 0) > (sink.writing_s ?? 0) ? 'commit' : 'write';
  return writing >= 3
    ? `${sink.name} has been busy with one ${what} for ${Math.floor(writing)} s`
    : `${sink.name} is busy ${percent(busy)} of the time`;
}

const RULES = {
  'in-flight': 'as many chunks as allowed are in flight',
  memory: 'as many bytes as allowed are in flight',
  behind: 'over 80 % of the memory budget is used, and splits with a lower watermark are read first',
};

export const ruleText = (rule) => RULES[rule] ?? 'it may not read on';

function why(rule, culprit) {
  return culprit ? `${culprit.text}, and ${ruleText(rule)}` : ruleText(rule);
}

/** The parts that keep state. */
export const stateful = (stats) => [...stats.aggregations, ...stats.operators];

export const stateRate = (between, name) =>
  partPerSecond(
    between,
    between.now.aggregations.some((part) => part.name === name) ? 'aggregations' : 'operators',
    name,
    (part) => part.state_bytes ?? null,
  );

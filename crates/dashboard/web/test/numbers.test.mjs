// What is computed from answers, without a browser: units, differences, causes of backpressure, kinds of decisions.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { age, bytes, count, delay, duration, percent, rate, timestamp } from '../src/format.js';
import { holder, perSecond, sinkBusy, span, waits, workersBusy } from '../src/differences.js';
import { backpressure, edgeKey, numbers } from '../src/flow.js';
import { bySubject, gain, kindOf } from '../src/variants.js';
import { jobs } from './jobs.mjs';

const plain = (text) => text.replaceAll('\u00a0', ' ');
const between = (job, at, change = () => {}) => {
  const answers = [at - 4, at].map((t) => ({ at: t * 1000, data: jobs[job].stats(t) }));
  answers.forEach(({ data }, i) => change(data, i));
  return span(answers);
};

test('numbers have units that people read', () => {
  const cases = [
    [
      count,
      [
        [0, '0'],
        [999, '999'],
        [9_999, '9,999'],
        [12_345, '12.3 k'],
        [1_234_567, '1.23 M'],
        [999_999, '1.00 M'],
        [0.4, '0.40'],
        [null, '–'],
      ],
    ],
    [rate, [[1_200_000, '1.20 M rows/s']]],
    [
      bytes,
      [
        [0, '0 B'],
        [1023, '1,023 B'],
        [3.4 * 1024 ** 3, '3.40 GiB'],
        [1024 ** 2 - 1, '1.00 MiB'],
      ],
    ],
    [
      duration,
      [
        [0, '0 s'],
        [0.0125, '12.5 ms'],
        [0.000_057_3, '57.3 µs'],
        [9.94, '9.9 s'],
        [59.97, '1 min'],
        [75, '1 min 15 s'],
        [7_260, '2 h 1 min'],
        [90_000, '1 d 1 h'],
      ],
    ],
    [
      age,
      [
        [0.4, '0 s'],
        [12.9, '12 s'],
        [61, '1 min 1 s'],
      ],
    ],
    [
      percent,
      [
        [0, '0 %'],
        [0.004, '<1 %'],
        [0.984, '98 %'],
        [1, '100 %'],
      ],
    ],
  ];
  for (const [format, pairs] of cases)
    for (const [value, text] of pairs) assert.equal(plain(format(value)), text, `${format.name}(${value})`);
  assert.equal(timestamp(1_796_065_695_511), '2026-11-30 19:08:15');
  assert.equal(delay(1_000_000, 1_004_200), 4.2);
  assert.equal(delay(0, Date.now()), null);
});

test('rates are differences within one run', () => {
  const healthy = between('hot_items', 900);
  assert.ok(Math.abs(perSecond(healthy, (s) => s.rows_in) - 999_343) < 1000);
  assert.ok(workersBusy(healthy) > 0.1 && workersBusy(healthy) < 0.12);
  // A job that began anew has no rate until its second answer.
  const anew = span([
    { at: 0, data: jobs.hot_items.stats(900) },
    { at: 1000, data: jobs.hot_items.stats(1) },
  ]);
  assert.equal(anew.before, null);
  assert.equal(
    perSecond(anew, (s) => s.rows_in),
    null,
  );
});

test('a stuck sink is the cause of waits', () => {
  const flow = backpressure(jobs.bids_to_kafka.plan(), between('bids_to_kafka', 900));
  assert.equal(flow.causes.length, 1);
  const [cause] = flow.causes;
  assert.equal(cause.sourceId, 'source 0');
  assert.equal(cause.rule, 'in-flight');
  assert.equal(cause.split.name, 'bid-0');
  assert.equal(
    plain(cause.why),
    'sink 0: bids has been busy with one write for 42 s, and as many chunks as allowed are in flight',
  );
  assert.ok(Math.abs(flow.edges.get(edgeKey({ from: 'source 0', to: 'pipeline 0' })) - 0.98) < 0.01);
  assert.equal(flow.edges.size, 6);
});

test('a sink that is slow, workers that are busy and splits that are behind are told apart', () => {
  const plan = jobs.hot_items.plan();
  const waiting = (rule, seconds) => (data, i) => {
    data.sources[0].splits[0].waits[rule] = i * seconds;
  };
  const why = (change) => plain(backpressure(plan, between('hot_items', 900, change)).causes[0].why);
  const slow = (data, i) => {
    waiting('in_flight_s', 3)(data, i);
    data.sinks[0].busy_s = i * 3.92;
  };
  assert.equal(why(slow), 'sink 0: hot_items is busy 98 % of the time, and as many chunks as allowed are in flight');
  const busy = (data, i) => {
    waiting('in_flight_s', 3)(data, i);
    data.workers.forEach((worker) => (worker.busy_s = i * 3.9));
    data.pipelines[0].task_time.sum_s = i * 6;
  };
  assert.equal(
    why(busy),
    'the workers are busy 98 % of the time, most of it (75 %) with pipeline 0, and as many chunks as allowed are in flight',
  );
  assert.match(why(waiting('memory_s', 2)), /^as many bytes as allowed are in flight$/);
  assert.match(why(waiting('behind_s', 2)), /splits with a lower watermark are read first/);
  // What is less than a tenth of the time is not told.
  assert.deepEqual(backpressure(plan, between('hot_items', 900, waiting('in_flight_s', 0.3))).causes, []);
});

test('a server that counts no waits still shows sinks that stand still', () => {
  const older = (data) => data.sources.forEach((source) => source.splits.forEach((split) => delete split.waits));
  const flow = backpressure(jobs.bids_to_kafka.plan(), between('bids_to_kafka', 900, older));
  assert.equal(flow.isCounted, false);
  assert.equal(flow.causes.length, 1);
  assert.equal(flow.causes[0].source, null);
  assert.equal(waits(between('hot_items', 900, older), 'source 0: table events'), null);
});

test('the lowest watermark of splits that are neither idle nor ended is what holds back', () => {
  const split = (name, watermark_ms, more) => ({ name, watermark_ms, idle: false, ended: false, ...more });
  const held = (splits) => holder({ splits })?.split.name ?? null;
  assert.equal(
    held([split('a', 5), split('b', 3), split('c', 1, { idle: true }), split('d', 0, { ended: true })]),
    'b',
  );
  assert.equal(held([split('a', 5), split('b', null)]), 'b');
  assert.equal(held([split('a', 5)]), null, 'one split holds nobody back');
  assert.equal(held([split('a', 5), split('b', 5)]), null);
  assert.equal(holder(jobs.clicks.stats(900).sources[0]).split.name, 'clicks/part-0417.jsonl');
});

test('numbers of nodes of the plan', () => {
  const now = between('priced', 900);
  assert.equal(numbers(now, 'operator 0').stateBytes, now.now.operators[0].state_bytes);
  assert.equal(numbers(now, 'lookup 0').part, null);
  assert.equal(sinkBusy(between('bids_to_kafka', 900), between('bids_to_kafka', 900).now.sinks[0]), 1);
});

test('decisions are told apart, and what recompiles too often is found', () => {
  const kinds = jobs.hot_items.stats(900).events.map(kindOf);
  assert.deepEqual([...new Set(kinds)].sort(), ['adapted', 'adopted', 'dropped', 'trial']);
  assert.equal(kindOf({ kind: 'moved' }), 'adapted', 'a kind of a later server');
  assert.equal(gain({ nanos_per_row_before: 20, nanos_per_row_after: 15 }), 0.25);
  const restless = bySubject(jobs.ratings.stats(900), []).find(({ name }) => name === 'pipeline 0');
  assert.ok(restless.isRestless && restless.deoptimised > 20 && restless.compiled > 30);
  assert.ok(!bySubject(jobs.hot_items.stats(900), []).some(({ isRestless }) => isRestless));
});

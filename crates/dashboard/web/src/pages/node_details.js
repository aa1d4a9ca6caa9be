// All about one node of the graph.
import { useEffect, useRef } from 'preact/hooks';
import { html } from '../html.js';
import { href } from '../route.js';
import { idOf, numbers } from '../flow.js';
import { bytes, byteRate, count, duration, percent, rate, timestamp, whole } from '../format.js';
import { partPerSecond, holder } from '../differences.js';
import { Problems } from '../problems.js';
import { KINDS, kindOf } from '../variants.js';

const SHOWN_EVENTS = 5;

export function Details({ id, node, between, flow, summary, onClose }) {
  const heading = useRef(null);
  useEffect(() => heading.current.focus({ preventScroll: matchMedia('(min-width: 1001px)').matches }), []);
  const n = numbers(between, node.id);
  const problems = summary.problems.filter((problem) => problem.subject && idOf(problem.subject) === node.id);
  const causes = flow.causes.filter((cause) => cause.sourceId === node.id || cause.culprit?.id === node.id);
  const close = (event) => event.key === 'Escape' && onClose();
  return html`<section class="panel details" aria-labelledby="details" onKeyDown=${close}>
    <header>
      <h2 id="details" ref=${heading} tabindex="-1">${node.id}</h2>
      <button type="button" class="quiet" onClick=${onClose} aria-label="Close the details">✕</button>
    </header>
    ${node.kind !== 'pipeline' && html`<p class="soft">${node.title}</p>`}
    ${problems.length > 0 && html`<${Problems} job=${id} problems=${problems} />`}
    ${causes.map((cause) =>
      html`<p key=${cause.sourceId} class="cause">
        ${cause.source ? `${cause.source} waits ${percent(cause.share)} of the time: ${cause.why}.` : `${cause.why}.`}
      </p>`)}
    ${n.part
      ? html`<dl class="facts">
        ${facts(between, n).map(([label, value]) => html`<div key=${label}><dt>${label}</dt><dd>${value}</dd></div>`)}
      </dl>`
      : html`<p class="soft">Nothing is counted for it.</p>`}
    ${links(id, node, between).length > 0 &&
      html`<p class="links">
        ${links(id, node, between).map(([label, to]) => html`<a key=${to} href=${to}>${label}</a>`)}
      </p>`}
    <${Decided} events=${between.now?.events.filter(({ subject }) => isOf(subject, node.id)) ?? []} />
    <h3>EXPLAIN</h3>
    <pre class="code" tabindex="0" role="group" aria-label="EXPLAIN">${node.detail.join('\n') || node.title}</pre>
  </section>`;
}

/** What was adapted of it lately, newest first. */
function Decided({ events }) {
  if (events.length === 0) return null;
  return html`<h3>Decisions</h3>
    <ul class="decided">
      ${events
        .slice(-SHOWN_EVENTS)
        .reverse()
        .map((event) =>
          html`<li key=${event.at_s}>
            <i class=${`event ${kindOf(event)}`} aria-hidden="true"></i> ${KINDS[kindOf(event)][0]} at ${duration(event.at_s)}: ${event.observed}: ${event.decided}
          </li>`)}
    </ul>`;
}

function facts(between, { list, part, rate: perSecond, busy }) {
  const queue = [['Queued now', count(part.queued)]];
  const times = (label, of) =>
    of?.count
      ? [[label, `${duration(of.p50_s)} median, ${duration(of.p99_s)} p99, ${duration(of.max_s)} longest`]]
      : [];
  switch (list) {
    case 'sources': {
      const held = holder(part);
      return [
        ['Rows', `${rate(perSecond)}, ${count(part.rows)} so far`],
        ['Bytes', `${byteRate(partPerSecond(between, list, part.name, (s) => s.bytes))}, ${bytes(part.bytes)} so far`],
        ['Workers decode', percent(busy)],
        ...queue,
        ['Watermark', timestamp(part.watermark_ms)],
        ...(held ? [['Held back by', held.split.name]] : []),
        ['Splits', `${whole(part.split_count)}, ${whole(part.idle_splits)} idle`],
        ...(part.lag_records == null ? [] : [['Lag', `${count(part.lag_records)} records`]]),
        ...times('A chunk takes', part.decode_time),
        ...(part.empty_columns.length ? [['Columns without a value', part.empty_columns.join(', ')]] : []),
      ];
    }
    case 'pipelines':
      return [
        ['Rows in', `${rate(perSecond)}, ${count(part.rows_in)} so far`],
        [
          'Rows out',
          `${rate(partPerSecond(between, list, part.name, (p) => p.rows_out))}, ${count(part.rows_out)} so far`,
        ],
        ['Workers busy with it', percent(busy)],
        ['Queued now', `${count(part.queued)}, at most ${count(part.queued_max)}`],
        ['Epochs in flight', whole(part.epochs_in_flight)],
        ['Watermark', timestamp(part.watermark_ms)],
        ...times('A buffer takes', part.task_time),
      ];
    case 'sinks':
      return [
        ['Rows', `${rate(perSecond)}, ${count(part.rows)} so far`],
        ['Busy', percent(busy)],
        ['This write takes', part.writing_s ? duration(part.writing_s) : 'no write under way'],
        ['This commit takes', part.committing_s ? duration(part.committing_s) : 'no commit under way'],
        ...(part.sent_bytes ? [['Sent by other nodes', bytes(part.sent_bytes)]] : []),
      ];
    default:
      return [
        ['Rows out', `${rate(perSecond)}, ${count(part.rows_out)} so far`],
        ['Workers busy with it', percent(busy)],
        [
          part.windows == null ? 'Turns of partitions' : 'Windows',
          `${count(part.windows ?? part.jobs)}, ${count(part.in_flight)} in flight`,
        ],
        ['State', bytes(part.state_bytes)],
        ...times('Trigger delay', part.trigger_delay),
        ...(part.sent_bytes ? [['Sent between nodes', bytes(part.sent_bytes)]] : []),
      ];
  }
}

function links(id, node, between) {
  if (node.kind === 'source') return [['Splits', href(id, 'splits', { source: node.id })]];
  if (node.kind === 'sink') return [['Rows that it gets', href(id, 'rows', { sink: node.id })]];
  if (node.kind === 'pipeline') {
    const variants = (between.now?.programs ?? [])
      .filter((program) => isOf(program.name, node.id))
      .flatMap((program) => program.variants);
    return [[`Code${variants.length ? `, ${variants.length} variants` : ''}`, href(id, 'code', { pipeline: node.id })]];
  }
  return [['State', href(id, 'state')]];
}

/**
 * Whether a program is part of a pipeline: `head of pipeline 0` and `pipeline 0, shared tables` are of `pipeline 0`.
 */
export const isOf = (name, pipeline) => new RegExp(`(^|\\b)${pipeline}(\\b|$)`).test(name);

// What each source reads in order, and which of it holds the watermark back.
import { html } from '../html.js';
import { setParams } from '../route.js';
import { holder, partPerSecond, waitOf, waits } from '../differences.js';
import { idOf, ruleText } from '../flow.js';
import { age, bytes, count, delay, duration, percent, plural, rate, timestamp, whole, NONE } from '../format.js';
import { Filter, Icon, Pages, Panel, Table, sortOf, sortParams, sorted } from '../ui.js';

const PAGE = 50;
/** A split that is silent for so long is why nothing comes out. */
const PATIENCE_S = 10;

export function Splits({ params, between, summary }) {
  const { sources } = between.now;
  const chosen = sources.find((source) => idOf(source.name) === params.source) ?? sources[0];
  if (!chosen) return html`<p class="empty">The job has no source.</p>`;
  return html`
    ${sources.length > 1 &&
      html`<div class="choices" role="group" aria-label="Source">
        ${sources.map((source) =>
          html`<button
            type="button"
            key=${source.name}
            aria-pressed=${source === chosen}
            onClick=${() => setParams({ source: idOf(source.name), page: null, split: null, q: null })}>
            ${source.name}
          </button>`)}
      </div>`}
    <${Source} key=${chosen.name} ...${{ source: chosen, params, between, summary }} />`;
}

function Source({ source, params, between, summary }) {
  const held = holder(source);
  const found = waits(between, source.name);
  const hasNodes = summary.nodes > 1 || between.now.nodes.length > 1;
  const rows = source.splits.map((split, index) => ({
    ...split,
    index,
    rate: partPerSecond(between, 'sources', source.name, (old) => splitOf(old, split, index)?.rows ?? null),
    wait: waitOf(found, split),
    holds: held?.split === split,
  }));
  const columns = columnsOf({ rows, hasNodes, found });
  const wanted = (params.q ?? params.split ?? '').toLowerCase();
  const shown = rows.filter((split) => split.name.toLowerCase().includes(wanted) && isWanted(split, params.show));
  // What holds the watermark back comes first, unless the reader asks for another order.
  const sort = sortOf(params, { key: 'watermark', isDown: false });
  const ordered = params.sort ? sorted(shown, columns, sort) : sorted(shown, [{ key: 'watermark', value: rank }], sort);
  const pages = Math.ceil(ordered.length / PAGE);
  const page = Math.min(Number(params.page ?? 0) || 0, Math.max(0, pages - 1));
  const number = (show) => rows.filter((split) => isWanted(split, show)).length;
  const show = [
    ['', 'All'],
    ['open', 'Open'],
    ['silent', 'Silent'],
    ['idle', 'Idle'],
    ['waits', 'Wait'],
    ['ended', 'Ended'],
  ];
  return html`
    ${held && html`<${Held} ...${{ held, source, now: between.now }} />`}
    <${Panel}
      title=${source.name}
      id="splits"
      aside=${html`<span>
        ${plural(source.split_count, 'split')}, ${whole(source.idle_splits)} idle · watermark ${timestamp(source.watermark_ms)}
        ${source.lag_records != null ? ` · lag ${count(source.lag_records)} records` : ''}
      </span>`}>
      <div class="tools">
        <${Filter}
          label="Filter splits"
          value=${params.q ?? params.split}
          onInput=${(q) => setParams({ q, split: null, page: null })}
          shown=${shown.length}
          all=${rows.length} />
        <div class="choices small" role="group" aria-label="Which splits">
          ${show.map(([key, label]) =>
            html`<button
              type="button"
              key=${key}
              aria-pressed=${(params.show ?? '') === key}
              onClick=${() => setParams({ show: key, page: null })}>
              ${label} <small>${whole(number(key))}</small>
            </button>`)}
        </div>
        <${Pages} ...${{ page, pages }} label="Pages of splits" onPage=${(next) => setParams({ page: next || null })} />
      </div>
      <${Table}
        caption=${`Splits of ${source.name}`}
        columns=${columns}
        rows=${ordered.slice(page * PAGE, (page + 1) * PAGE)}
        rowKey=${(split) => `${split.node} ${split.name}`}
        sort=${sort}
          onSort=${(next) => setParams(sortParams(next))}
          tone=${(split) => (split.holds ? 'marked' : '')}
          empty="No split is like this." />
      ${source.split_count > rows.length &&
        html`<p class="soft">
          ${whole(rows.length)} of ${whole(source.split_count)} splits are listed: of other nodes up to 500 each.</p>`}
    <//>`;
}

const splitOf = (source, { name, node }, index) => {
  const same = source.splits[index];
  return same?.name === name && same.node === node
    ? same
    : source.splits.find((split) => split.name === name && split.node === node);
};

const rank = (split) => (split.idle || split.ended ? null : (split.watermark_ms ?? -Infinity));

function isWanted(split, show) {
  switch (show) {
    case 'open':
      return !split.ended;
    case 'silent':
      return !split.ended && split.silent_s >= PATIENCE_S;
    case 'idle':
      return split.idle;
    case 'waits':
      return split.wait?.share >= 0.01;
    case 'ended':
      return split.ended;
    default:
      return true;
  }
}

function statusText(split, isSilent, needsWatermark) {
  if (split.trouble) return `Its server does not answer: ${split.trouble}.`;
  if (!isSilent) return 'It sends rows.';
  return `It has sent no rows for ${age(split.silent_s)}${needsWatermark ? ', and windows and joins wait for it' : ''}.`;
}

/** Which split all others wait for, why, and what helps. */
function Held({ held: { split, aheadMs }, source, now }) {
  const isSilent = split.silent_s >= PATIENCE_S;
  const needsWatermark = now.aggregations.length + now.operators.length > 0;
  const at =
    split.watermark_ms == null ? 'It has no watermark yet' : `Its watermark is ${timestamp(split.watermark_ms)}`;
  const ahead = aheadMs == null ? '' : `, ${duration(aheadMs / 1000)} before the next one`;
  const link = () => setParams({ q: split.name, split: null, show: null, page: null });
  return html`<section class=${`notice ${isSilent ? 'warning' : 'info'}`} aria-label="What holds the watermark back">
    <${Icon} kind=${isSilent ? 'warning' : 'info'} label=${isSilent ? 'warning' : 'notice'} />
    <div>
      <strong>
        <button type="button" class="link" onClick=${link}>
          ${split.name}
        </button> holds the watermark of ${source.name} back.</strong>
      <p>${at}${ahead}: the lowest among the splits that are neither idle nor at their end.
        ${' '}
          ${statusText(split, isSilent, needsWatermark)}
        </p>
      ${isSilent && !split.trouble &&
        html`<p class="advice">
          <code>'scan.watermark.idle-timeout' = '10 s'</code> in the WITH (…) of the table lets the others go on without it.</p>`}
    </div>
  </section>`;
}

function columnsOf({ rows, hasNodes, found }) {
  const some = (get) => rows.some((row) => get(row) != null);
  const now = Date.now();
  return [
    { key: 'name', title: 'Split', heads: true, class: 'name', value: (s) => s.name, cell: (s) => s.name },
    hasNodes && { key: 'node', title: 'Node', number: true, value: (s) => s.node, cell: (s) => s.node },
    { key: 'status', title: 'Status', class: 'nowrap', value: status, cell: (s) => html`<${Status} split=${s} />` },
    {
      key: 'watermark',
      title: 'Watermark',
      class: 'nowrap',
      value: (s) => s.watermark_ms,
      cell: (s) => timestamp(s.watermark_ms),
    },
    {
      key: 'delay',
      title: 'Delay',
      number: true,
      hint: 'How far the watermark is behind the clock',
      value: (s) => delay(s.watermark_ms, now),
      cell: (s) => duration(delay(s.watermark_ms, now)),
    },
    some((s) => s.lag_records) && {
      key: 'lag',
      title: 'Lag',
      number: true,
      hint: 'Records that are there and have not been read',
      value: (s) => s.lag_records,
      cell: (s) => count(s.lag_records),
    },
    {
      key: 'silent',
      title: 'Silent for',
      number: true,
      value: (s) => (s.ended ? null : s.silent_s),
      cell: (s) => (s.ended ? NONE : s.silent_s < 1 ? `<1${'\u00a0'}s` : age(s.silent_s)),
    },
    found && {
      key: 'waits',
      title: 'Waits',
      number: true,
      hint: 'Share of the time in which it may not be read (backpressure)',
      value: (s) => s.wait?.share,
      cell: (s) => html`<${Waits} wait=${s.wait} />`,
    },
    { key: 'rate', title: 'Rows', number: true, value: (s) => s.rate, cell: (s) => rate(s.rate) },
    { key: 'rows', title: 'Rows so far', number: true, value: (s) => s.rows, cell: (s) => count(s.rows) },
    { key: 'bytes', title: 'Bytes', number: true, value: (s) => s.bytes, cell: (s) => bytes(s.bytes) },
    { key: 'queued', title: 'Queued', number: true, value: (s) => s.queued, cell: (s) => count(s.queued) },
  ].filter(Boolean);
}

const SHORT = { 'in-flight': 'chunks in flight', memory: 'bytes in flight', behind: 'others are behind' };

function Waits({ wait }) {
  if (!wait || (wait.share < 0.005 && !wait.rule)) return wait ? percent(0) : NONE;
  return html`<span title=${wait.rule ? ruleText(wait.rule) : undefined}>
    ${percent(wait.share)}
    ${wait.rule && wait.share >= 0.01 && html` <small>${SHORT[wait.rule]}</small>`}
  </span>`;
}

function status(split) {
  if (split.ended) return 'ended';
  if (split.trouble) return 'unreachable';
  if (split.idle) return 'idle';
  if (split.holds) return 'holds the watermark';
  return split.silent_s >= PATIENCE_S ? 'silent' : 'reading';
}

const STATUS_ICONS = { unreachable: 'error', 'holds the watermark': 'warning', silent: 'info' };

function Status({ split }) {
  const text = status(split);
  const isSlow = text === 'holds the watermark' && split.silent_s < PATIENCE_S;
  return html`<span class=${`status ${text.split(' ')[0]}`} title=${split.trouble ?? undefined}>
    ${STATUS_ICONS[text] && html`<${Icon} kind=${isSlow ? 'info' : STATUS_ICONS[text]} />`} ${text}
  </span>`;
}

// Rows as sinks get them.
import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { setParams } from '../route.js';
import { usePoll } from '../api.js';
import { Chart } from '../chart.js';
import { clock, count, plural } from '../format.js';
import { Notice, Panel, Table } from '../ui.js';
import { idOf } from '../flow.js';

const KEPT = 2000;

export function Rows({ path, params }) {
  const [isPaused, setPaused] = useState(false);
  const { data, error } = usePoll(`${path}/rows`, { paused: isPaused });
  const series = useCollected(data);
  if (!data)
    return html`<${Notice} kind=${error ? 'warning' : 'info'}>${error ? error.message : 'Asking for rows…'}<//>`;
  const sink = data.sinks.find(({ name }) => idOf(name) === params.sink) ?? data.sinks[0];
  if (!sink) return html`<p class="empty">The job has no sink.</p>`;
  return html`
    <div class="tools top-tools">
      ${data.sinks.length > 1 &&
        html`<div class="choices" role="group" aria-label="Sink">
          ${data.sinks.map(({ name }) =>
            html`<button
              type="button"
              key=${name}
              aria-pressed=${name === sink.name}
              onClick=${() => setParams({ sink: idOf(name), y: null, x: null })}>
              ${name}
            </button>`)}
        </div>`}
      <button type="button" aria-pressed=${isPaused} onClick=${() => setPaused(!isPaused)}>
        ${isPaused ? 'Go on' : 'Pause'}
      </button>
      <span class="soft">
        ${plural(sink.total, 'row')} so far · ${isPaused ? 'paused' : 'live'}, as of ${clock(sink.at_ms)}
      </span>
    </div>
    <${RowsChart} key=${sink.name} ...${{ sink, params, rows: series.get(sink.name) ?? [] }} />
    <${Panel} title=${sink.name} id="rows" aside=${`${plural(sink.rows.length, 'row')}, newest first`}>
      <${Table}
        caption=${`Rows of ${sink.name}, newest first`}
        isShort=${true}
        columns=${columns(sink)}
        rows=${[...sink.rows].reverse()}
        empty="No row since you began to look. Rows of windows come when a watermark completes them." />
    <//>`;
}

const NUMERIC = /^(TINYINT|SMALLINT|INT|INTEGER|BIGINT|FLOAT|DOUBLE|DECIMAL)\b/;
const TEMPORAL = /^(TIMESTAMP|DATE)/;

const columns = (sink) =>
  sink.columns.map(({ name, type }, i) => ({
    key: `${i}`,
    title: html`${name} <small>${type}</small>`,
    number: NUMERIC.test(type),
    class: 'nowrap',
    cell: (row) => (row[i] === null ? html`<span class="null">NULL</span>` : row[i]),
  }));

/** Rows of the last answers together, by sink: each answer has no more than the last hundred. */
function useCollected(data) {
  const collected = useRef(new Map());
  const last = useRef(null);
  if (data && last.current !== data) {
    for (const { name, rows, total } of data.sinks) {
      const seen = collected.current.get(name) ?? { total: null, rows: [] };
      const isNew = seen.total === null || total < seen.total;
      const numbered = rows.map((values, i) => ({ number: total - rows.length + i, values }));
      const fresh = isNew ? numbered : numbered.filter(({ number }) => number >= seen.total);
      collected.current.set(name, { total, rows: [...(isNew ? [] : seen.rows), ...fresh].slice(-KEPT) });
    }
    last.current = data;
  }
  useEffect(() => () => collected.current.clear(), []);
  return new Map([...collected.current].map(([name, { rows }]) => [name, rows]));
}

const seconds = (text) => Date.parse(`${text.replace(' ', 'T')}${/[Z+]/.test(text) ? '' : 'Z'}`) / 1000;

function RowsChart({ sink, params, rows }) {
  const numeric = sink.columns.map((column, i) => ({ ...column, i })).filter(({ type }) => NUMERIC.test(type));
  const times = sink.columns.map((column, i) => ({ ...column, i })).filter(({ type }) => TEMPORAL.test(type));
  if (numeric.length === 0) return html`<p class="soft">No column is a number, so there is nothing to draw.</p>`;
  const y = numeric.find(({ name }) => name === params.y) ?? numeric.at(-1);
  const x = times.find(({ name }) => name === params.x) ?? null;
  const points = rows
    .filter(({ values }) => values[y.i] !== null && (x === null || values[x.i] !== null))
    .map(({ number, values }) => [x === null ? number : seconds(values[x.i]), Number(values[y.i])])
    .filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b))
    .sort((a, b) => a[0] - b[0]);
  const select = (label, key, options, value) =>
    html`<label>
      ${label}
      <select value=${value} onChange=${(event) => setParams({ [key]: event.currentTarget.value })}>
        ${options.map(([option, text]) =>
          html`<option key=${option} value=${option} selected=${option === value}>${text}</option>`)}
      </select>
    </label>`;
  return html`<section class="panel" aria-labelledby="rows-chart">
    <header><h2 id="rows-chart">${y.name} by ${x ? x.name : 'row'}</h2><div class="aside selects">
      ${select(
        'y',
        'y',
        numeric.map(({ name }) => [name, name]),
        y.name,
      )}
      ${select('x', 'x', [['', 'number of the row'], ...times.map(({ name }) => [name, name])], x?.name ?? '')}
      <span>${plural(points.length, 'point')}</span></div></header>
    <${Chart}
      title=${y.name}
      x=${points.map(([a]) => a)}
      isTime=${x !== null}
      format=${count}
      height=${180}
      points=${true}
      series=${[{ label: y.name, values: points.map(([, b]) => b), tone: 'blue' }]} />
  </section>`;
}

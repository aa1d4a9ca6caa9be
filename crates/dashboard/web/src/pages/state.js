// What the job holds in memory and on disk.
import { html } from '../html.js';
import { usePoll } from '../api.js';
import { Chart } from '../chart.js';
import { perSecond } from '../differences.js';
import { stateful, stateRate } from '../flow.js';
import { bytes, byteRate, percent, whole, NONE } from '../format.js';
import { Bar, Figure, Figures, Notice, Panel, Table } from '../ui.js';
import { Problems, problemsOf } from '../problems.js';

const CLASSES = {
  buffers: ['blue', 'chunks that were read, and rows on their way through pipelines'],
  tables: ['teal', 'tables of windows that are not complete'],
  partials: ['green', 'sealed tables: windows being written, and slices that later windows share'],
  operators: ['orange', 'rows and state of joins, sessions, count windows, Top-N and OVER, and rows to be sorted'],
  lookups: ['purple', 'tables that others look up'],
  sinks: ['red', 'output that a sink has not written'],
  other: ['grey', 'what the process holds beyond these classes'],
};

export function StatePage({ id, path, summary, between }) {
  const { memory, spill, checkpoints } = between.now;
  const { data } = usePoll(`${path}/history`, { every: 2000 });
  const x = data?.at_ms.map((ms) => ms / 1000);
  const problems = problemsOf('state', summary.problems);
  const share = (value) => (memory.limit_bytes ? value / memory.limit_bytes : null);
  const classes = Object.entries(memory.by_class).map(([key, value]) => ({
    key,
    value,
    tone: CLASSES[key]?.[0] ?? 'grey',
    what: CLASSES[key]?.[1] ?? '',
  }));
  const operators = stateful(between.now);
  return html`
    ${problems.length > 0 &&
      html`<section class="panel" aria-label="Problems with memory">
        <${Problems} job=${id} problems=${problems} />
      </section>`}
    <${Figures} label="Memory">
      <${Figure} label="Memory" value=${bytes(memory.used_bytes)} note=${percent(share(memory.used_bytes))} />
      <${Figure} label="Budget" value=${bytes(memory.limit_bytes)} />
      <${Figure} label="Peak" value=${bytes(memory.peak_bytes)} note=${percent(share(memory.peak_bytes))} />
      <${Figure}
        label="State in the last checkpoint"
        value=${checkpoints?.complete ? bytes(checkpoints.state_bytes) : NONE} />
      <${Figure}
        label="Spilled, on disk now"
        value=${bytes(spill.held_bytes)}
        note=${spill.files ? `${whole(spill.files)} files so far` : 'nothing so far'} />
    <//>
    <${Panel} title="Memory by class" id="classes" aside=${`of a budget of ${bytes(memory.limit_bytes)}`}>
      <div
        class="stack"
        role="img"
        aria-label=${`Memory by class: ${classes.map(({ key, value }) => `${key} ${bytes(value)}`).join(', ')}`}>
        ${classes.filter(({ value }) => value > 0).map(({ key, value, tone }) =>
          html`<span
            key=${key}
            class=${`swatch ${tone}`}
            style=${{ width: `${Math.min(100, 100 * share(value) || 0)}%` }}
            title=${`${key}: ${bytes(value)}`}>
          </span>`)}
        ${memory.peak_bytes > 0 &&
          html`<i
            class="peak"
            style=${{ left: `${Math.min(100, 100 * share(memory.peak_bytes))}%` }}
            title=${`peak: ${bytes(memory.peak_bytes)}`}>
          </i>`}
      </div>
      <${Table} caption="Memory by class" rows=${classes} rowKey=${({ key }) => key} columns=${[
        {
          key: 'key',
          title: 'Class',
          heads: true,
          class: 'nowrap',
          cell: ({ key, tone }) => html`<i class=${`swatch ${tone}`} aria-hidden="true"></i> ${key}`,
        },
        { key: 'value', title: 'Bytes', number: true, cell: ({ value }) => bytes(value) },
        { key: 'share', title: 'Of the budget', number: true, cell: ({ value }) => percent(share(value)) },
        { key: 'what', title: 'What counts', class: 'soft text', cell: ({ what }) => what },
      ]} />
    <//>
    ${
      data &&
      html`<section class="charts two" aria-label="The last 15 minutes">
      <${Chart} title="Memory" x=${x} format=${bytes} isBytes=${true} height=${160} series=${[
        { label: 'used', values: data.memory_used_bytes, tone: 'blue', fill: true },
        { label: 'budget', values: data.at_ms.map(() => memory.limit_bytes), tone: 'soft', dash: true },
      ]} />
      <${Chart}
        title="State"
        x=${x}
        format=${bytes}
        isBytes=${true}
        height=${160}
        series=${[{ label: 'state', values: data.state_bytes, tone: 'orange', fill: true }]} />
    </section>`
    }
    <${Panel} title="State by operator" id="operators">
      ${operators.length > 0 && operators.every((part) => part.state_bytes == null) &&
        html`<${Notice}>This server does not say how much state each operator has.<//>`}
      <${Table}
        caption="State by operator"
        rows=${[...operators].sort((a, b) => (b.state_bytes ?? 0) - (a.state_bytes ?? 0))}
        rowKey=${({ name }) => name}
        empty="The job keeps no state: no aggregation, join or sort."
        columns=${[
        {
          key: 'name',
          title: 'Operator',
          heads: true,
          cell: ({ name }) =>
            html`<a href=${`#/jobs/${encodeURIComponent(id)}/graph?node=${encodeURIComponent(name.split(':')[0])}`}>
              ${name}
            </a>`,
        },
        { key: 'state', title: 'State', number: true, cell: (part) => bytes(part.state_bytes) },
        {
          key: 'share',
          title: 'Of the budget',
          number: true,
          cell: (part) =>
            html`<span class="nowrap">
              <${Bar}
                share=${share(part.state_bytes ?? 0)} /> ${percent(part.state_bytes == null ? null : share(part.state_bytes))}
            </span>`,
        },
        { key: 'grows', title: 'Grows by', number: true, cell: ({ name }) => byteRate(stateRate(between, name)) },
        { key: 'what', title: 'Windows or turns', number: true, cell: (part) => whole(part.windows ?? part.jobs) },
      ]} />
    <//>
    <${Panel} title="Spill" id="spill">
      <dl class="facts">
        ${[
          ['Written', spill.written_bytes, (s) => s.spill.written_bytes],
          ['Read back', spill.read_bytes, (s) => s.spill.read_bytes],
        ].map(
          ([label, value, get]) =>
            html`<div key=${label}>
              <dt>${label}</dt>
              <dd>${bytes(value)}, ${byteRate(perSecond(between, get))} now</dd>
            </div>`,
        )}
        <div><dt>Held on disk</dt><dd>${bytes(spill.held_bytes)}</dd></div>
      </dl>
      <p
        class="soft">State is spilled when it has more than 40 % of the budget, until it has 20 %. Over 80 % only the splits with the lowest watermark are read.</p>
    <//>`;
}

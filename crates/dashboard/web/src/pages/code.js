// How the code of each pipeline came to be what it is, and the code itself.
import { html } from '../html.js';
import { setParams } from '../route.js';
import { count, bytes, duration, nanos, percent, plural, whole, NONE } from '../format.js';
import { Icon, Panel, Table, Pages } from '../ui.js';
import { KINDS, bySubject, gain, kindOf } from '../variants.js';
import { Problems, problemsOf } from '../problems.js';
import { Timeline } from './timeline.js';
import { Listing } from './listing.js';
import { isOf } from './node_details.js';

const PAGE = 20;

export function Code({ id, path, params, summary, between }) {
  const { now } = between;
  const problems = problemsOf('code', summary.problems);
  const all = bySubject(now, problems);
  const pipelines = now.pipelines.map(({ name }) => name);
  const chosen = pipelines.includes(params.pipeline) ? params.pipeline : null;
  const isShown = ({ name }) => chosen === null || isOf(name, chosen);
  const shown = all.filter(isShown);
  return html`
    ${problems.length > 0 &&
      html`<section class="panel" aria-label="Problems with code">
        <${Problems} job=${id} problems=${problems} />
      </section>`}
    <div class="choices" role="group" aria-label="Pipeline">
      ${[null, ...pipelines].map((name) =>
        html`<button
          type="button"
          key=${name}
          aria-pressed=${name === chosen}
          onClick=${() => setParams({ pipeline: name, page: null })}>
          ${name ?? 'All'}
        </button>`)}
    </div>
    <${Panel} title="Programs" id="programs">
      <${Programs} rows=${shown.filter(({ program, compiled, reused }) => program || compiled || reused)} />
    <//>
    <${Panel}
      title="Timeline"
      id="timeline"
      aside=${html`<span class="legend">
        ${Object.entries(KINDS).map(([kind, [label, what]]) =>
          html`<span key=${kind} title=${what}><i class=${`event ${kind}`} aria-hidden="true"></i>${label}</span>`)}
      </span>`}>
      <${Timeline} lanes=${shown.filter(({ events }) => events.length > 0)} elapsed=${now.elapsed_s} />
      <${Events}
        ...${{ params }}
        events=${now.events.filter(({ subject }) => chosen === null || isOf(subject, chosen))} />
    <//>
    <${Panel} title="Variants" id="variants"><${Variants} programs=${now.programs.filter(isShown)} /><//>
    <${Listing} key=${path} path=${path} sql=${summary.sql} chosen=${params.pipeline} isShown=${params.code === '1'} />
    <${Panel} title="Compilations" id="compilations">
      <${Compilations} rows=${now.compilations.filter(({ program }) => chosen === null || isOf(program, chosen))} />
    <//>`;
}

const Programs = ({ rows }) =>
  html`<${Table}
    caption="Programs"
    rows=${rows}
    rowKey=${({ name }) => name}
    tone=${(row) => (row.isRestless ? 'marked' : '')}
    empty="No program has processed rows so far."
    columns=${[
    {
      key: 'name',
      title: 'Program',
      heads: true,
      cell: ({ name, isRestless }) =>
        html`${name}
          ${isRestless &&
            html` <span class="status holds nowrap"><${Icon} kind="warning" /> recompiles too often</span>`}`,
    },
    { key: 'compiled', title: 'Compiled', number: true, cell: (row) => `${whole(row.compiled)}×` },
    {
      key: 'reused',
      title: 'Reused',
      number: true,
      hint: 'Code that was there already, in memory or on disk',
      cell: (row) => `${whole(row.reused)}×`,
    },
    { key: 'time', title: 'Compile time', number: true, cell: (row) => duration(row.compileSeconds) },
    { key: 'adopted', title: 'Adopted', number: true, cell: (row) => whole(row.adopted) },
    { key: 'dropped', title: 'Dropped', number: true, cell: (row) => whole(row.dropped) },
    { key: 'deoptimised', title: 'Deoptimised', number: true, cell: (row) => whole(row.deoptimised) },
    {
      key: 'cost',
      title: 'Per row now',
      number: true,
      cell: ({ program }) => nanos(program?.variants.find(({ current }) => current)?.nanos_per_row),
    },
    {
      key: 'order',
      title: 'Out of order',
      number: true,
      hint: 'Share of the sampled rows',
      cell: ({ program }) => percent(program?.profile?.out_of_order_share),
    },
  ]} />`;

function Events({ events, params }) {
  const newest = [...events].reverse();
  const pages = Math.ceil(newest.length / PAGE);
  const page = Math.min(Number(params.page ?? 0) || 0, Math.max(0, pages - 1));
  return html`<${Pages}
    ...${{ page, pages }}
    label="Pages of decisions"
    onPage=${(next) => setParams({ page: next || null })} />
  <${Table}
    caption="Decisions, newest first"
    rows=${newest.slice(page * PAGE, (page + 1) * PAGE)}
    rowKey=${(event) => `${event.at_s} ${event.subject}`}
    empty="Nothing has been decided so far."
    columns=${[
    { key: 'at', title: 'At', number: true, cell: (event) => duration(event.at_s) },
    {
      key: 'kind',
      title: 'What',
      class: 'nowrap',
      cell: (event) => html`<i class=${`event ${kindOf(event)}`} aria-hidden="true"></i> ${KINDS[kindOf(event)][0]}`,
    },
    { key: 'subject', title: 'Subject', heads: true, class: 'nowrap', cell: (event) => event.subject },
    { key: 'observed', title: 'Observed', class: 'text', cell: (event) => event.observed },
    { key: 'decided', title: 'Decided', class: 'text', cell: (event) => event.decided },
    {
      key: 'cost',
      title: 'Per row',
      number: true,
      cell: (event) =>
        event.nanos_per_row_before == null
          ? NONE
          : `${nanos(event.nanos_per_row_before)} → ${nanos(event.nanos_per_row_after)}`,
    },
    { key: 'gain', title: 'Cost', number: true, cell: (event) => html`<${Gain} value=${gain(event)} />` },
  ]} />`;
}

function Gain({ value }) {
  if (value == null) return NONE;
  const size = percent(Math.abs(value));
  return Math.abs(value) < 0.005
    ? 'none'
    : html`<span class=${value > 0 ? 'better' : 'worse'}>${value > 0 ? `${size} less` : `${size} more`}</span>`;
}

const Variants = ({ programs }) => {
  const rows = programs.flatMap((program) =>
    program.variants.map((variant) => ({ program: program.name, ...variant })),
  );
  return html`<${Table}
    caption="Variants"
    rows=${rows}
    rowKey=${(row) => `${row.program} ${row.number}`}
    tone=${({ current }) => (current ? 'current' : '')}
    empty="No program has processed rows so far."
    columns=${[
    { key: 'program', title: 'Program', cell: (row) => row.program },
    { key: 'number', title: 'Variant', heads: true, cell: (row) => `variant ${row.number}` },
    {
      key: 'current',
      title: 'Runs',
      cell: (row) => (row.current ? html`<span class="state running"><${Icon} kind="ok" /> now</span>` : NONE),
    },
    { key: 'tier', title: 'Tier' },
    { key: 'choices', title: 'Specialised for', cell: (row) => row.choices || 'nothing: generic code' },
    { key: 'rows', title: 'Rows', number: true, cell: (row) => count(row.rows) },
    { key: 'nanos', title: 'Per row', number: true, cell: (row) => nanos(row.nanos_per_row) },
    {
      key: 'cycles',
      title: 'Cycles per row',
      number: true,
      cell: (row) => (row.cycles_per_row == null ? NONE : row.cycles_per_row.toFixed(1)),
    },
    { key: 'time', title: 'Time', number: true, cell: (row) => duration(row.time_s) },
  ]} />`;
};

const ORIGINS = { compiled: 'compiled', memory: 'from memory', disk: 'from disk' };

const Compilations = ({
  rows,
}) => html`<p class="soft">
  ${plural(rows.length, 'compilation')}, newest first; ${duration(rows.reduce((sum, row) => sum + row.time_s, 0))} in all.</p>
  <${Table}
    caption="Compilations"
    isShort=${true}
    rows=${[...rows].reverse().slice(0, 200)}
    empty="No machine code so far: rows are interpreted."
    columns=${[
    { key: 'program', title: 'Program', heads: true },
    { key: 'origin', title: 'Origin', cell: (row) => ORIGINS[row.origin] ?? row.origin },
    { key: 'time', title: 'Time', number: true, cell: (row) => duration(row.time_s) },
    { key: 'bytes', title: 'Code', number: true, cell: (row) => bytes(row.code_bytes) },
    { key: 'problem', title: 'Cache', cell: (row) => row.cache_problem ?? '' },
  ]} />`;

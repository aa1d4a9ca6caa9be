// What surrounds the pages of a job: its state, and the tabs.
import { useEffect, useRef } from 'preact/hooks';
import { html } from './html.js';
import { href } from './route.js';
import { usePoll } from './api.js';
import { span } from './differences.js';
import { age } from './format.js';
import { problemsOf } from './problems.js';
import { Icon, Notice, State } from './ui.js';
import { Overview } from './pages/overview.js';
import { Graph } from './pages/graph.js';
import { Splits } from './pages/splits.js';
import { Code } from './pages/code.js';
import { StatePage } from './pages/state.js';
import { Checkpoints } from './pages/checkpoints.js';
import { Errors } from './pages/errors.js';
import { Rows } from './pages/rows.js';
import { Nodes } from './pages/nodes.js';

/** Pages that have something to show of a job without statistics: one that has not begun, or that failed before. */
const BEFORE_IT_BEGINS = ['overview', 'graph'];

const TABS = {
  overview: ['Overview', Overview],
  graph: ['Graph', Graph],
  splits: ['Splits', Splits],
  code: ['Code', Code],
  state: ['State', StatePage],
  checkpoints: ['Checkpoints', Checkpoints],
  errors: ['Errors', Errors],
  rows: ['Rows', Rows],
  nodes: ['Nodes', Nodes],
};

export function JobFrame({ route, info }) {
  const { id, tab, params } = route;
  const path = `/jobs/${encodeURIComponent(id)}`;
  const job = usePoll(path);
  const stats = usePoll(`${path}/stats`, { keep: 5 });
  const [title, Page] = TABS[tab] ?? TABS.overview;
  const name = job.data?.name ?? id;
  useEffect(() => {
    document.title = `${name} · ${title} · Millstream`;
  }, [name, title]);
  if (!job.data) {
    return job.error
      ? html`<${Notice} kind="error" title=${job.error.message}>${job.error.advice} <a href="#/jobs">All jobs</a><//>`
      : html`<p class="empty">Asking the server…</p>`;
  }
  const summary = job.data;
  const between = span(stats.answers);
  const hasNodes = summary.nodes > 1 || between.now?.nodes.length > 1;
  const tabs = Object.entries(TABS).filter(([key]) => key !== 'nodes' || hasNodes || tab === 'nodes');
  return html`
    <div class="title-row job-title">
      <h1>${summary.name}</h1>
      <${State} state=${summary.state} />
      <span class="soft nowrap">for ${age(summary.running_s)}</span>
      ${summary.file && html`<span class="soft">${summary.file}</span>`}
    </div>
    <nav class="tabs" aria-label="Pages of the job">
      ${tabs.map(([key, [label]]) =>
        html`<${Tab}
          key=${key}
          ...${{ id, label }}
          tab=${key}
          isCurrent=${key === tab}
          problems=${problemsOf(key, summary.problems)} />`)}
    </nav>
    ${summary.error &&
      html`<section class="failure" aria-label="Error">
        <${Icon} kind="error" label="error" />
        <pre>${summary.error}</pre>
      </section>`}
    ${
      !between.now && !BEFORE_IT_BEGINS.includes(tab)
        ? html`<${Notice}>${stats.error ? stats.error.message : 'Asking for the statistics…'}<//>`
        : html`<${Page} key=${tab} ...${{ id, path, params, summary, between, info }} />`
    }`;
}

function Tab({ id, tab, label, isCurrent, problems }) {
  const worst = ['error', 'warning', 'info'].find((severity) =>
    problems.some((problem) => problem.severity === severity),
  );
  const link = useRef(null);
  useEffect(() => {
    const strip = link.current.parentElement;
    if (isCurrent) strip.scrollLeft = link.current.offsetLeft - (strip.clientWidth - link.current.offsetWidth) / 2;
  }, [isCurrent]);
  return html`<a ref=${link} href=${href(id, tab)} aria-current=${isCurrent ? 'page' : undefined}>
    ${label}
    ${worst && html` <${Icon} kind=${worst} label=${worst === 'info' ? 'notice' : worst} />`}
  </a>`;
}

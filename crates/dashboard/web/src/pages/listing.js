// SQL, row program, LLVM IR and assembly side by side; asked for only when somebody wants to see them.
import { html } from '../html.js';
import { setParams } from '../route.js';
import { usePoll } from '../api.js';
import { plural } from '../format.js';
import { Notice, Panel } from '../ui.js';
import { isOf } from './node_details.js';

const PANES = [
  ['sql', 'SQL'],
  ['program', 'Row program'],
  ['ir', 'LLVM IR'],
  ['assembly', 'Assembly'],
];

export function Listing({ path, sql, chosen, isShown }) {
  return html`<${Panel}
    title="Listing"
    id="listing"
    aside=${html`<button
      type="button"
      aria-expanded=${isShown}
      onClick=${() => setParams({ code: isShown ? null : '1' })}>
      ${isShown ? 'Hide the code' : 'Show the code'}
    </button>`}>
    ${isShown
      ? html`<${Panes} ...${{ path, sql, chosen }} />`
      : html`<p
        class="soft">SQL, row program, LLVM IR and assembly side by side. The server makes them when they are asked for.</p>`}
  <//>`;
}

function Panes({ path, sql, chosen }) {
  const { data, error } = usePoll(`${path}/code`, { once: true });
  if (!data)
    return html`<${Notice} kind=${error ? 'error' : 'info'}>${error ? error.message : 'Asking for the code…'}<//>`;
  if (data.pipelines.length === 0) return html`<${Notice}>There is no code.<//>`;
  const candidates = data.pipelines;
  const shown =
    candidates.find(({ name }) => name === chosen) ??
    candidates.find(({ name }) => chosen && isOf(name, chosen)) ??
    candidates[0];
  return html`
    <label
      class="inline">Program <select
        value=${shown.name}
        onChange=${(event) => setParams({ pipeline: event.currentTarget.value })}>
      ${candidates.map(({ name }) =>
        html`<option key=${name} value=${name} selected=${name === shown.name}>${name}</option>`)}
    </select></label>
    <div class="panes">
      ${PANES.map(([key, title]) =>
        html`<${Pane} key=${key} title=${title} text=${key === 'sql' ? shown.sql || sql : shown[key]} />`)}
    </div>`;
}

function Pane({ title, text }) {
  const lines = text ? text.trimEnd().split('\n').length : 0;
  return html`<section class="pane">
    <header><h3>${title}</h3><small>${text ? plural(lines, 'line') : ''}</small></header>
    ${text
      ? html`<pre class="code" tabindex="0" role="group" aria-label=${title}>${text}</pre>`
      : html`<p class="empty">There is none: these rows are interpreted, or the server does not keep it.</p>`}
  </section>`;
}

// SQL, row program, LLVM IR and assembly side by side; asked for only when somebody wants to see them.
import { useState } from 'preact/hooks';
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
  // Of one program only: another one begins with its own.
  const [asked, setAsked] = useState(null);
  const { data, error } = usePoll(`${path}/code`, { once: true });
  if (!data)
    return html`<${Notice} kind=${error ? 'error' : 'info'}>${error ? error.message : 'Asking for the code…'}<//>`;
  const candidates = data.programs;
  if (candidates.length === 0) return html`<${Notice}>There is no code.<//>`;
  const program =
    candidates.find(({ name }) => name === chosen) ??
    candidates.find(({ name }) => chosen && isOf(name, chosen)) ??
    candidates[0];
  // What is in use comes last.
  const last = program.variants.length - 1;
  const at = asked?.of === program.name ? Math.min(asked.at, last) : last;
  const shown = program.variants[at];
  return html`
    <div class="choices">
      <label
        class="inline">Program <select
          value=${program.name}
          onChange=${(event) => setParams({ pipeline: event.currentTarget.value })}>
        ${candidates.map(({ name }) =>
          html`<option key=${name} value=${name} selected=${name === program.name}>${name}</option>`)}
      </select></label>
      <label
        class="inline">Variant <select value=${at} onChange=${(event) => setAsked({ of: program.name, at: Number(event.currentTarget.value) })}>
        ${program.variants.map((one, number) =>
          html`<option key=${number} value=${number} selected=${number === at}>${nameOf(one)}</option>`)}
      </select></label>
      <span class="soft">${USE[shown.tier] ?? 'not in use now'}</span>
    </div>
    <div class="panes">
      ${PANES.map(([key, title]) =>
        html`<${Pane} key=${key} title=${title} text=${key === 'sql' ? program.sql || sql : shown[key]} />`)}
    </div>`;
}

/** How rows go through a variant. */
const USE = {
  compiled: 'in use now, as machine code',
  interpreted: 'in use now: the row program is interpreted, and the code on the right is what it would be compiled to',
};

const nameOf = ({ number, choices }) =>
  `${number == null ? '' : `variant ${number}: `}${choices || 'generic code'}`;

function Pane({ title, text }) {
  const lines = text ? text.trimEnd().split('\n').length : 0;
  return html`<section class="pane">
    <header><h3>${title}</h3><small>${text ? plural(lines, 'line') : ''}</small></header>
    ${text
      ? html`<pre class="code" tabindex="0" role="group" aria-label=${title}>${text}</pre>`
      : html`<p class="empty">There is none: these rows are interpreted, or the server does not keep it.</p>`}
  </section>`;
}

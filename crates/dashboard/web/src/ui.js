// Parts that pages share.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { html } from './html.js';
import { percent, plural } from './format.js';

/** Shapes tell apart what colours do, too. */
const SHAPES = {
  error: 'M8 1.5 14.5 8 8 14.5 1.5 8Z',
  warning: 'M8 2 15 14H1Z',
  info: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2Z',
  ok: 'm3 8.5 3.2 3.2L13 4.8',
  busy: 'M8 2.5a5.5 5.5 0 1 1-5.5 5.5',
};

export function Icon({ kind, label }) {
  const isLine = kind === 'ok' || kind === 'busy';
  return html`<svg
    class=${`icon ${kind}`}
    viewBox="0 0 16 16"
    role=${label ? 'img' : undefined}
    aria-label=${label}
    aria-hidden=${label ? undefined : 'true'}>
    <path class=${isLine ? 'line' : 'full'} d=${SHAPES[kind]} />
    ${!isLine &&
      html`<path
        class="mark"
        d=${kind === 'info' ? 'M8 7.2v3.6M8 5v.1' : kind === 'warning' ? 'M8 6.2v4M8 12v.1' : 'M8 4.8v4M8 11v.1'} />`}
  </svg>`;
}

const STATES = {
  running: 'ok',
  finished: 'ok',
  starting: 'busy',
  restarting: 'busy',
  stopping: 'busy',
  stopped: 'info',
  failed: 'error',
};

export const State = ({ state }) =>
  html`<span class=${`state ${state}`}><${Icon} kind=${STATES[state] ?? 'info'} /> ${state}</span>`;

/** A share of a whole as a bar; the number beside it says the same. */
export function Bar({ share, tone = '', label }) {
  const width = `${Math.min(100, Math.max(0, (share ?? 0) * 100))}%`;
  return html`<span
    class=${`bar ${tone}`}
    role=${label ? 'img' : undefined}
    aria-label=${label && `${label}: ${percent(share)}`}
    aria-hidden=${label ? undefined : 'true'}>
    <span style=${{ width }}></span>
  </span>`;
}

export const Figure = ({ label, value, note, tone = '' }) => html`<div class=${`figure ${tone}`}>
  <dt>${label}</dt><dd>${value}${note && html` <small>${note}</small>`}</dd>
</div>`;

export const Figures = ({ children, label = 'Key numbers' }) =>
  html`<dl class="figures" aria-label=${label}>${children}</dl>`;

export const Panel = ({ title, aside, children, id }) => html`<section class="panel" aria-labelledby=${id}>
  <header><h2 id=${id}>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</header>
  ${children}
</section>`;

/** The statement of a job. */
export const Sql = ({ summary: { sql, state_dir: folder } }) => html`<${Panel}
  title="SQL"
  id="sql"
  aside=${folder && html`<span>State directory <code>${folder}</code></span>`}>
  <pre class="code" tabindex="0" role="group" aria-label="SQL">${sql}</pre>
<//>`;

/** What the page cannot show, and why. */
export function Notice({ kind = 'info', title, children }) {
  return html`<div class=${`notice ${kind}`}>
    <${Icon} kind=${kind} label=${kind} />
    <div>${title && html`<strong>${title}</strong>`} ${children}</div>
  </div>`;
}

/**
 * A table with a caption that a screen reader says. `columns` have `key`, `title`, and may have `number` (aligned to
 * the right), `cell` (what is shown of a row), `value` (what is sorted by; without one the column is not sorted),
 * `heads` (the row's header) and `hint`. `sort` is `{key, isDown}`. A table that `isShort` scrolls by itself.
 */
export function Table({
  caption,
  columns,
  rows,
  rowKey,
  sort,
  onSort,
  below,
  tone,
  isShort,
  empty = 'Nothing so far.',
}) {
  return html`<div class=${isShort ? 'scroll short' : 'scroll'} role="group" aria-label=${caption} tabindex="0">
    <table>
      <caption class="unseen">${caption}</caption>
      <thead>
        <tr>${columns.map((column) => html`<${Head} key=${column.key} ...${{ column, sort, onSort }} />`)}</tr>
      </thead>
      <tbody>
        ${rows.length === 0 && html`<tr><td class="none" colspan=${columns.length}>${empty}</td></tr>`}
        ${rows.flatMap((row, index) => {
          const key = rowKey ? rowKey(row) : index;
          const under = below?.(row);
          return [
            html`<tr key=${key} class=${[tone?.(row), under && 'has-below'].filter(Boolean).join(' ') || undefined}>
              ${columns.map((column) => html`<${Cell} key=${column.key} ...${{ column, row }} />`)}
            </tr>`,
            under && html`<tr key=${`${key} below`} class="below"><td colspan=${columns.length}>${under}</td></tr>`,
          ];
        })}
      </tbody>
    </table>
  </div>`;
}

function Head({ column, sort, onSort }) {
  const isSorted = sort?.key === column.key;
  const order = isSorted ? (sort.isDown ? 'descending' : 'ascending') : undefined;
  const turn = () => onSort({ key: column.key, isDown: isSorted ? !sort.isDown : Boolean(column.number) });
  return html`<th scope="col" class=${column.number ? 'number' : undefined} aria-sort=${order} title=${column.hint}>
    ${
      onSort && column.value
        ? html`<button type="button" class="sort" onClick=${turn}>
          ${column.title}
          <span class="arrow" aria-hidden="true">${isSorted ? (sort.isDown ? '↓' : '↑') : ''}</span>
        </button>`
        : column.title
    }
  </th>`;
}

function Cell({ column, row }) {
  const content = column.cell ? column.cell(row) : row[column.key];
  const name = [column.number && 'number', column.class].filter(Boolean).join(' ') || undefined;
  return column.heads ? html`<th scope="row" class=${name}>${content}</th>` : html`<td class=${name}>${content}</td>`;
}

/** Rows in the order that `sort` asks for. What has no value comes last either way. */
export function sorted(rows, columns, sort) {
  const value = columns.find((column) => column.key === sort?.key)?.value;
  if (!value) return rows;
  const sign = sort.isDown ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x == null || y == null) return (x == null) - (y == null);
    return sign * (typeof x === 'string' ? x.localeCompare(y, 'en', { numeric: true }) : x - y);
  });
}

/** How a table is sorted, from the parameters of the page and back. */
export const sortOf = (params, otherwise) =>
  params.sort ? { key: params.sort, isDown: params.down === '1' } : otherwise;
export const sortParams = (sort) => ({ sort: sort.key, down: sort.isDown ? '1' : null, page: null });

export const Filter = ({ label, value, onInput, shown, all }) => html`<label class="filter">
  <span class="unseen">${label}</span>
  <input
    type="search"
    placeholder=${label}
    value=${value ?? ''}
    onInput=${(event) => onInput(event.currentTarget.value)} />
  ${value && html`<small>${shown} of ${plural(all, 'row')}</small>`}
</label>`;

/** Moves between pages of a long table. */
export function Pages({ page, pages, onPage, label }) {
  if (pages < 2) return null;
  return html`<nav class="pages" aria-label=${label}>
    <button type="button" disabled=${page === 0} onClick=${() => onPage(page - 1)}>Previous</button>
    <span>Page ${page + 1} of ${pages}</span>
    <button type="button" disabled=${page + 1 >= pages} onClick=${() => onPage(page + 1)}>Next</button>
  </nav>`;
}

/** A dialog that takes the keyboard while it is open. */
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  // Before the next key is pressed: it is for the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose?.();
  };
  return html`<dialog ref=${element} aria-labelledby="dialog-title" onCancel=${cancel}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

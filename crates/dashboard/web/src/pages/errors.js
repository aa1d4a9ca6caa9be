// Rows that are missing from the result: late, malformed, failed.
import { html } from '../html.js';
import { clock, percent, rate, whole } from '../format.js';
import { perSecond } from '../differences.js';
import { Figure, Figures, Panel, Table } from '../ui.js';
import { Problems, problemsOf } from '../problems.js';
import { setParams } from '../route.js';

const KINDS = [
  [
    'late',
    'records_late_total',
    'came after their window was complete, and were dropped',
    "A larger delay in WATERMARK FOR ts AS ts - INTERVAL '…' waits longer for them.",
  ],
  ['malformed', 'records_malformed_total', "could not be decoded, and were skipped, as the format's options say", ''],
  [
    'failed',
    'records_failed_total',
    "were dropped because an expression failed ('pipeline.error-policy' = 'skip')",
    '',
  ],
];

export function Errors({ id, summary, between, params }) {
  const { now } = between;
  const problems = problemsOf('errors', summary.problems);
  const samples = (now.samples ?? []).filter(({ kind }) => !params.kind || kind === params.kind).reverse();
  const share = (number) => (now.rows_in > 0 ? number / (now.rows_in + now.records_malformed_total) : 0);
  const isClean = KINDS.every(([, field]) => now[field] === 0);
  return html`
    ${problems.length > 0 &&
      html`<section class="panel" aria-label="Problems with rows">
        <${Problems} job=${id} problems=${problems} />
      </section>`}
    <${Figures} label="Rows that are missing">
      ${KINDS.map(([kind, field]) =>
        html`<${Figure}
          key=${kind}
          label=${`Rows ${kind}`}
          value=${whole(now[field])}
          note=${now[field] ? `${percent(share(now[field]))} of all, ${rate(perSecond(between, (s) => s[field]))}` : ''}
          tone=${now[field] ? 'noted' : ''} />`)}
    <//>
    ${isClean
      ? html`<p class="empty">No row was late, malformed or failed.</p>`
      : html`<ul class="kinds">
        ${KINDS.filter(([, field]) => now[field] > 0).map(([kind, field, what, advice]) =>
          html`<li key=${kind}><b>${whole(now[field])} ${kind}</b>: they ${what}. ${advice}</li>`)}
      </ul>`}
    ${now.first_error &&
      html`<${Panel} title="First error" id="first-error">
        <pre class="code" tabindex="0" role="group" aria-label="First error">${now.first_error}</pre>
      <//>`}
    ${
      now.samples &&
      !isClean &&
      html`<${Panel}
        title="Samples"
        id="samples"
        aside=${html`<div class="choices small" role="group" aria-label="Kind">
          ${['', ...KINDS.map(([kind]) => kind)].map((kind) =>
            html`<button
              type="button"
              key=${kind}
              aria-pressed=${(params.kind ?? '') === kind}
              onClick=${() => setParams({ kind })}>
              ${kind || 'all'}
            </button>`)}
        </div>`}>
      <${Table} caption="Samples, newest first" rows=${samples} empty="No sample of this kind." columns=${[
        { key: 'at', title: 'At', cell: ({ at_ms: at }) => clock(at) },
        { key: 'kind', title: 'Kind', heads: true },
        { key: 'text', title: 'Row', class: 'text', cell: ({ text }) => html`<code class="wrap">${text}</code>` },
      ]} />
    <//>`
    }`;
}

// Problems as the server found them, with the place where each is seen best.
import { html } from './html.js';
import { idOf } from './flow.js';
import { href } from './route.js';
import { Icon } from './ui.js';

const TABS = {
  'sink-stuck': 'graph',
  'sink-slow': 'graph',
  cpu: 'graph',
  'source-silent': 'splits',
  'split-holds-watermark': 'splits',
  'split-unreachable': 'splits',
  memory: 'state',
  'state-grows': 'state',
  recompiles: 'code',
  'checkpoint-old': 'checkpoints',
  'checkpoint-fails': 'checkpoints',
  'node-silent': 'nodes',
  'node-lost': 'nodes',
  'node-replaced': 'nodes',
  'nodes-awaited': 'nodes',
  skew: 'nodes',
  'late-rows': 'errors',
  'bad-rows': 'errors',
};

/** Where a problem is seen. */
function placeOf(job, { kind, subject, split }) {
  const tab = TABS[kind] ?? 'overview';
  const id = subject ? idOf(subject) : null;
  switch (tab) {
    case 'graph':
      return href(job, tab, { node: id });
    case 'splits':
      return href(job, tab, { source: id, split });
    case 'code':
      return href(job, tab, { pipeline: id });
    default:
      return href(job, tab);
  }
}

function Problem({ job, problem }) {
  const { kind, severity, text, advice } = problem;
  const place = placeOf(job, problem);
  const isElsewhere = (TABS[kind] ?? 'overview') !== 'overview';
  return html`<li class=${`problem ${severity}`}>
    <${Icon} kind=${severity} label=${severity} />
    <div>
      <p>${isElsewhere ? html`<a href=${place}>${text}</a>` : text}</p>
      ${advice && html`<p class="advice">${advice}</p>`}
    </div>
  </li>`;
}

export const Problems = ({ job, problems, label = 'Problems' }) =>
  html`<ul class="problems" aria-label=${label}>
    ${problems.map((problem) =>
      html`<${Problem} key=${`${problem.kind} ${problem.subject} ${problem.split}`} ...${{ job, problem }} />`)}
  </ul>`;

/** The problems that a tab shows, for a mark beside its name. */
export const problemsOf = (tab, problems = []) => problems.filter(({ kind }) => TABS[kind] === tab);

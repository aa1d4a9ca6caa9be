// Checkpoints: how often, how long, how large, and how long each phase takes.
import { html } from '../html.js';
import { age, bytes, clock, duration, plural, whole, NONE } from '../format.js';
import { Figure, Figures, Notice, Panel, Table } from '../ui.js';
import { Problems, problemsOf } from '../problems.js';

const PHASES = [
  ['cut_s', 'cut', 'blue'],
  ['write_s', 'write', 'orange'],
  ['commit_s', 'commit', 'purple'],
];

export function Checkpoints({ id, summary, between }) {
  const { checkpoints } = between.now;
  const problems = problemsOf('checkpoints', summary.problems);
  const shown =
    problems.length > 0 &&
    html`<section class="panel" aria-label="Problems with checkpoints">
      <${Problems} job=${id} problems=${problems} />
    </section>`;
  if (!checkpoints || (!summary.state_dir && !checkpoints.begun)) {
    return html`${shown}<${Notice} title="This job takes no checkpoints.">
      <p>After a failure or a stop it begins anew. Start it with <code>--state-dir DIR</code>, and it goes on where it was, with each row counted once.</p>
    <//>`;
  }
  const recent = checkpoints.recent ?? [];
  const last = recent.at(-1);
  return html`${shown}
    <${Figures} label="Checkpoints">
      <${Figure} label="Complete" value=${whole(checkpoints.complete)} note=${`${whole(checkpoints.begun)} begun`} />
      <${Figure}
        label="Last complete"
        value=${checkpoints.complete ? `${age(checkpoints.age_s)} ago` : NONE}
        note=${checkpoints.complete ? `number ${checkpoints.last}` : ''} />
      <${Figure}
        label="Duration, median"
        value=${checkpoints.duration.count ? duration(checkpoints.duration.p50_s) : NONE}
        note=${checkpoints.duration.count ? `longest ${duration(checkpoints.duration.max_s)}` : ''} />
      <${Figure} label="State" value=${bytes(checkpoints.state_bytes)} />
      <${Figure} label="Written so far" value=${bytes(checkpoints.written_bytes)} />
      <${Figure}
        label="Rows held up, p99"
        value=${checkpoints.handing_over?.count ? duration(checkpoints.handing_over.p99_s) : NONE}
        note="at a time" />
    <//>
    ${checkpoints.complete === 0 && html`<${Notice}>No checkpoint is complete yet.<//>`}
    ${
      recent.length > 0
        ? html`<${Panel}
          title="Duration by phase"
          id="phases"
          aside=${html`<span class="legend">
            ${PHASES.map(([, label, tone]) =>
              html`<span key=${label}><i class=${`swatch ${tone}`} aria-hidden="true"></i>${label}</span>`)}
          </span>`}>
          <${Bars} recent=${recent} />
        <//>
        <${Panel} title="Recent checkpoints" id="recent" aside=${plural(recent.length, 'checkpoint')}>
          <${Recent} recent=${recent} />
        <//>`
        : checkpoints.complete > 0 && html`<${Notice}>This server keeps no history of checkpoints.<//>`
    }
    ${last &&
      html`<p
        class="soft">Cut: the sources agree on where it stands. Write: state is written while rows are processed. Commit: sinks make the rows before it visible.</p>`}`;
}

/** Stacked bars; the table below says the same in numbers. */
function Bars({ recent }) {
  const [width, height, slots] = [1000, 140, Math.max(50, recent.length)];
  const most = Math.max(...recent.map((c) => c.duration_s), 1e-9);
  const step = width / slots;
  const spoken = `Duration of the last ${recent.length} checkpoints: the longest ${duration(most)}, the last ${duration(recent.at(-1).duration_s)}`;
  return html`<div class="bars">
    <span class="bars-most">${duration(most)}</span>
    <svg viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label=${spoken}>
      ${recent.map((checkpoint, i) => {
        let y = height;
        return html`<g key=${checkpoint.number}>
          <title>
            ${`${checkpoint.number}: ${PHASES.map(([field, label]) => `${label} ${duration(checkpoint[field])}`).join(', ')}`}
          </title>
          ${PHASES.map(
          ([field, label, tone]) => {
            const size = (checkpoint[field] / most) * (height - 4);
            y -= size;
            return html`<rect
              key=${label}
              class=${`fill-${tone}`}
              x=${(i + slots - recent.length) * step + step * 0.2}
              y=${y}
              width=${step * 0.6}
              height=${Math.max(0, size)} />`;
          },
        )}</g>`;
      })}
    </svg>
  </div>`;
}

const Recent = ({ recent }) =>
  html`<${Table}
    caption="Recent checkpoints, newest first"
    isShort=${true}
    rows=${[...recent].reverse()}
    rowKey=${({ number }) => number}
    columns=${[
    { key: 'number', title: 'Number', heads: true },
    { key: 'at', title: 'Complete at', cell: ({ at_ms: at }) => clock(at) },
    { key: 'duration', title: 'Duration', number: true, cell: (c) => duration(c.duration_s) },
    ...PHASES.map(([field, label]) => ({
      key: field,
      title: label[0].toUpperCase() + label.slice(1),
      number: true,
      cell: (c) => duration(c[field]),
    })),
    { key: 'written', title: 'Written', number: true, cell: (c) => bytes(c.written_bytes) },
    { key: 'state', title: 'State', number: true, cell: (c) => bytes(c.state_bytes) },
  ]} />`;

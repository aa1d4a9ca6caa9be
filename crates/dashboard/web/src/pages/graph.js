// The plan as a graph: what each part does, and where rows wait.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { href, setParams } from '../route.js';
import { usePoll } from '../api.js';
import { HIGH, NOTED, backpressure, edgeKey, numbers } from '../flow.js';
import { HEIGHT, WIDTH, layout, neighbour, ordered, path as line } from '../layout.js';
import { bytes, count, percent, rate, NONE } from '../format.js';
import { Icon, Notice, Panel, Sql, Table } from '../ui.js';
import { Details } from './node_details.js';

export function Graph({ id, path, params, summary, between }) {
  const { data, error } = usePoll(`${path}/plan`, { once: true });
  const plan = useMemo(() => data && ordered(data), [data]);
  const sql = !between.now && html`<${Sql} summary=${summary} />`;
  if (!plan)
    return html`<${Notice} kind=${error ? 'error' : 'info'}>${error ? error.message : 'Asking for the plan…'}<//> ${sql}`;
  const flow = backpressure(plan, between);
  const all = new Map(plan.nodes.map((node) => [node.id, numbers(between, node.id)]));
  const chosen = plan.nodes.find((node) => node.id === params.node);
  return html`
    <${Causes} ...${{ id, flow, summary }} />
    <div class=${`graph-page${chosen ? ' with-details' : ''}`}>
      <${Panel} title="Plan" id="plan" aside=${html`<${Legend} />`}>
        <${Drawing} ...${{ id, plan, flow, all }} chosen=${chosen?.id} />
      <//>
      ${chosen &&
        html`<${Details}
          key=${chosen.id}
          ...${{ id, node: chosen, between, plan, flow, summary }}
          onClose=${() => leave(chosen.id)} />`}
    </div>
    <${AsTable} ...${{ id, plan, flow, all }} />
    ${sql}`;
}

/** Closes the details; the keyboard is where it was before. */
function leave(node) {
  setParams({ node: null });
  requestAnimationFrame(() => document.querySelector(`[data-node="${CSS.escape(node)}"]`)?.focus());
}

function Causes({ id, flow, summary }) {
  if (flow.causes.length === 0) {
    if (summary.state !== 'running' || flow.isCounted == null) return null;
    return flow.isCounted
      ? html`<p class="fine">
        <${Icon} kind="ok" /> No backpressure: no source waits for more than ${percent(NOTED)} of the time.</p>`
      : html`<p class="fine">
        <${Icon}
          kind="info" /> This server does not count how long sources wait; sinks that stand still are shown.</p>`;
  }
  return html`<section class="panel" aria-labelledby="backpressure">
    <header><h2 id="backpressure">Backpressure</h2></header>
    <ul class="problems">${flow.causes.map(
      (cause) => html`<li key=${cause.sourceId} class=${`problem ${cause.share >= HIGH ? 'error' : 'warning'}`}>
      <${Icon} kind=${cause.share >= HIGH ? 'error' : 'warning'} label=${cause.share >= HIGH ? 'high' : 'some'} />
      <div><p>${
        cause.source
          ? html`<a href=${href(id, 'graph', { node: cause.sourceId })}>
            ${cause.source}
          </a> waits ${percent(cause.share)} of the time: ${cause.why}.`
          : html`<a href=${href(id, 'graph', { node: cause.sourceId })}>${cause.why}</a>: what comes before it waits.`
      }</p>
        ${cause.split &&
          html`<p
            class="advice">Split that waits most: <a
              href=${href(id, 'splits', { source: cause.sourceId, split: cause.split.name })}>
            ${cause.split.name}
          </a>
          </p>`}
      </div></li>`,
    )}</ul>
  </section>`;
}

const Legend = () => html`<span class="legend">
  <span><svg class="edge" viewBox="0 0 28 8" aria-hidden="true"><path d="M0 4H28" /></svg>flows</span>
  <span>
    <svg class="edge some" viewBox="0 0 28 8" aria-hidden="true"><path d="M0 4H28" /></svg>waits ≥ ${percent(NOTED)}
  </span>
  <span>
    <svg class="edge high" viewBox="0 0 28 8" aria-hidden="true"><path d="M0 4H28" /></svg>waits ≥ ${percent(HIGH)}
  </span>
</span>`;

function Drawing({ id, plan, flow, all, chosen }) {
  const box = useRef(null);
  const [room, setRoom] = useState(0);
  useLayoutEffect(() => {
    setRoom(box.current.clientWidth);
    const observer = new ResizeObserver(([entry]) => setRoom(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const drawn = useMemo(() => room > 0 && layout(plan, room), [plan, room]);
  const walk = (event) => {
    if (!event.key.startsWith('Arrow')) return;
    const from = event.target.closest('[data-node]')?.dataset.node;
    const next = from && neighbour(drawn, from, event.key);
    if (!next) return;
    event.preventDefault();
    box.current.querySelector(`[data-node="${CSS.escape(next)}"]`).focus();
  };
  return html`<div class="drawing" ref=${box} onKeyDown=${walk}>
    ${
      drawn &&
      html`<svg
        role="group"
        aria-label="Graph of the plan. Arrow keys go from node to node, Enter shows details."
        viewBox=${`0 0 ${drawn.width} ${drawn.height}`}
        width=${Math.round(drawn.width * drawn.scale)} height=${Math.round(drawn.height * drawn.scale)}>
      <defs>
        ${['', 'some', 'high'].map((level) =>
          html`<marker
            key=${level}
            id=${`arrow${level}`}
            class=${`arrow ${level}`}
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="8"
            markerHeight="8"
            markerUnits="userSpaceOnUse"
            orient="auto">
            <path d="M0 0.5 8 4 0 7.5Z" />
          </marker>`)}
      </defs>
      ${drawn.edges.map((edge) =>
        html`<${Edge}
          key=${edgeKey(edge)}
          edge=${edge}
          direction=${drawn.direction}
          share=${flow.edges.get(edgeKey(edge)) ?? 0} />`)}
      ${drawn.nodes.map((node) =>
        html`<${Node}
          key=${node.id}
          ...${{ id, node, numbers: all.get(node.id) }}
          isChosen=${node.id === chosen}
          isCulprit=${flow.causes.some((cause) => cause.culprit?.id === node.id)} />`)}
    </svg>`
    }
  </div>`;
}

const levelOf = (share) => (share >= HIGH ? 'high' : share >= NOTED ? 'some' : '');

function Edge({ edge, share, direction }) {
  const level = levelOf(share);
  const middle = edge.points[Math.floor(edge.points.length / 2)];
  return html`<g class=${`edge ${level}`} data-edge=${edgeKey(edge)} aria-hidden="true">
    <path d=${line(edge.points, direction)} marker-end=${`url(#arrow${level})`} />
    ${level &&
      html`<rect x=${middle.x - 24} y=${middle.y - 9} width="48" height="18" rx="9" />
        <text x=${middle.x} y=${middle.y + 4} text-anchor="middle">${percent(share)}</text>`}
  </g>`;
}

const pen = document.createElement('canvas').getContext('2d');

/** A title that fits into its node; SVG does not cut text. */
function fitted(text) {
  pen.font = `600 13px ${getComputedStyle(document.documentElement).getPropertyValue('--sans')}`;
  if (pen.measureText(text).width <= WIDTH - 32) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > WIDTH - 32) length -= 1;
  return `${text.slice(0, length)}…`;
}

/** What a node is in a few words; of a pipeline its steps of EXPLAIN: "filter, project, emit". */
function titleOf({ id, kind, title, detail }) {
  if (kind !== 'pipeline') return title === id ? kind : title;
  const steps = detail.filter((text) => !text.startsWith(id)).map((text) => text.trim().split(' ')[0]);
  return [...new Set(steps)].join(', ') || title;
}

function Node({ id, node, numbers: n, isChosen, isCulprit }) {
  const [left, top] = [node.x - WIDTH / 2, node.y - HEIGHT / 2];
  const extra = n.stateBytes != null ? bytes(n.stateBytes) : n.queued != null ? `${count(n.queued)} queued` : '';
  const isBusy = n.busy != null && n.busy >= 0.8;
  const drawn = fitted(titleOf(node));
  const busy = n.busy == null ? '' : `${percent(n.busy)} busy`;
  // In the order in which it is drawn, so that who sees it and says what they see is understood.
  const spoken = [node.id, drawn, n.rate != null && rate(n.rate), extra, busy, isCulprit && 'others wait for it']
    .filter(Boolean)
    .join(', ');
  return html`<a
    href=${href(id, 'graph', { node: node.id })}
    data-node=${node.id}
    aria-label=${spoken}
    aria-current=${isChosen ? 'true' : undefined}
      class=${`node ${node.kind}${isChosen ? ' chosen' : ''}${isCulprit ? ' culprit' : ''}`}
        transform=${`translate(${left} ${top})`}>
    <rect class="frame" width=${WIDTH} height=${HEIGHT} rx="6" />
    <rect class="kind" width="4" height=${HEIGHT - 12} x="6" y="6" rx="2" />
    <text class="id" x="20" y="20">${node.id}</text>${' '}
    <text class="title" x="20" y="37">${drawn}</text>${' '}
    <text class="rate" x="20" y="57">${n.rate == null ? '' : rate(n.rate)}</text>${' '}
    <text class="extra" x=${WIDTH - 12} y="57" text-anchor="end">${extra}</text>${' '}
    <rect class="track" x="20" y="68" width="100" height="5" rx="2.5" />
    <rect
      class=${`busy${isBusy ? ' full' : ''}`}
      x="20"
      y="68"
      width=${Math.round(100 * (n.busy ?? 0))}
      height="5"
      rx="2.5" />
    <text class="share" x=${WIDTH - 12} y="74" text-anchor="end">${busy}</text>
  </a>`;
}

/** The same as the drawing, to be read in order. */
function AsTable({ id, plan, flow, all }) {
  const into = (node) => plan.edges.filter((edge) => edge.from === node.id);
  const columns = [
    {
      key: 'id',
      title: 'Node',
      heads: true,
      cell: (node) => html`<a href=${href(id, 'graph', { node: node.id })}>${node.id}</a>`,
    },
    { key: 'title', title: 'What', cell: titleOf },
    { key: 'rate', title: 'Rows', number: true, cell: (node) => rate(all.get(node.id).rate) },
    {
      key: 'busy',
      title: 'Busy',
      number: true,
      hint: 'Share of all workers; of a sink, share of the time',
      cell: (node) => percent(all.get(node.id).busy),
    },
    { key: 'queued', title: 'Queued', number: true, cell: (node) => count(all.get(node.id).queued) },
    { key: 'state', title: 'State', number: true, cell: (node) => bytes(all.get(node.id).stateBytes) },
    {
      key: 'into',
      title: 'Goes to',
      cell: (node) =>
        into(node)
          .map((edge) => edge.to)
          .join(', ') || NONE,
    },
    {
      key: 'waits',
      title: 'Backpressure',
      number: true,
      cell: (node) =>
        into(node).length ? percent(Math.max(...into(node).map((edge) => flow.edges.get(edgeKey(edge)) ?? 0))) : NONE,
    },
  ];
  return html`<${Panel} title="Nodes of the plan" id="as-table">
    <${Table} caption="Nodes of the plan" columns=${columns} rows=${plan.nodes} rowKey=${(node) => node.id} />
  <//>`;
}

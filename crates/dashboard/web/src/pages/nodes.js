// The nodes of a cluster, and how evenly the work is spread.
import { html } from '../html.js';
import { perSecond } from '../differences.js';
import { age, bytes, byteRate, delay, duration, percent, rate, timestamp, whole, count, NONE } from '../format.js';
import { Bar, Figure, Figures, Icon, Notice, Panel, Table } from '../ui.js';
import { Problems, problemsOf } from '../problems.js';

const PATIENCE_S = 10;
const SKEWED = 1.5;

export function Nodes({ id, summary, between }) {
  const { nodes } = between.now;
  const problems = problemsOf('nodes', summary.problems);
  const shown =
    problems.length > 0 &&
    html`<section class="panel" aria-label="Problems with nodes">
      <${Problems} job=${id} problems=${problems} />
    </section>`;
  if (nodes.length === 0)
    return html`${shown}
      <${Notice} title="The job runs on one node.">With <code>--cluster</code> it runs on several.<//>`;
  const most = Math.max(...nodes.map((node) => node.rows_per_second));
  const mean = nodes.reduce((sum, node) => sum + node.rows_per_second, 0) / nodes.length;
  const skew = mean > 0 ? most / mean : null;
  const sent = (node) => perSecond(between, (s) => s.nodes.find((other) => other.node === node.node)?.sent_bytes);
  const now = Date.now();
  const events = between.now.events.filter(({ subject }) => /^node \d/.test(subject)).reverse();
  return html`${shown}
    <${Figures} label="Nodes">
      <${Figure} label="Nodes" value=${whole(nodes.length)} />
      <${Figure} label="Rows in" value=${rate(mean * nodes.length)} />
      <${Figure}
        label="Skew"
        value=${skew == null ? '–' : `${skew.toFixed(2)} ×`}
        note="busiest node to the mean"
        tone=${skew >= SKEWED ? 'noted' : ''} />
      <${Figure} label="State" value=${bytes(nodes.reduce((sum, node) => sum + node.state_bytes, 0))} />
      <${Figure}
        label="Replaced"
        value=${whole(nodes.reduce((sum, node) => sum + node.replaced, 0))}
        note="lost processes" />
    <//>
    <${Panel} title="Nodes" id="nodes">
      <${Table}
        caption="Nodes of the cluster"
        rows=${nodes}
        rowKey=${({ node }) => node}
        tone=${(node) => (isSilent(node) ? 'failed' : '')}
        columns=${[
        { key: 'node', title: 'Node', heads: true, class: 'nowrap', cell: ({ node }) => `node ${node}` },
        { key: 'status', title: 'Status', class: 'nowrap', cell: (node) => html`<${Status} node=${node} />` },
        {
          key: 'age',
          title: 'Last report',
          number: true,
          cell: (node) => (node.age_s == null ? 'none' : `${age(node.age_s)} ago`),
        },
        {
          key: 'replaced',
          title: 'Replaced',
          number: true,
          hint: 'How often another process has taken its place',
          cell: (node) => whole(node.replaced),
        },
        { key: 'rate', title: 'Rows in', number: true, cell: (node) => rate(node.rows_per_second) },
        {
          key: 'share',
          title: 'Share',
          number: true,
          cell: (node) =>
            html`<span class="nowrap">
              <${Bar}
                share=${most ? node.rows_per_second / most : 0} /> ${percent(mean ? node.rows_per_second / mean / nodes.length : null)}
            </span>`,
        },
        { key: 'in', title: 'Rows in so far', number: true, cell: (node) => count(node.rows_in) },
        { key: 'watermark', title: 'Watermark', class: 'nowrap', cell: (node) => timestamp(node.watermark_ms) },
        { key: 'delay', title: 'Delay', number: true, cell: (node) => duration(delay(node.watermark_ms, now)) },
        { key: 'state', title: 'State', number: true, cell: (node) => bytes(node.state_bytes) },
        { key: 'sent', title: 'Sends', number: true, cell: (node) => byteRate(sent(node)) },
        { key: 'total', title: 'Sent so far', number: true, cell: (node) => bytes(node.sent_bytes) },
      ]} />
    <//>
    <${Panel} title="Exchange" id="exchange">
      <p class="soft">
        A node is sent no more than its credit allows: what waits for credit is kept by the sender, whose sources wait when that is
        too much. Lanes that are full lead to the node that is too slow.
      </p>
      <${Lanes} nodes=${nodes} />
    <//>
    ${events.length > 0 &&
      html`<${Panel} title="Events" id="events">
        <${Table} caption="Events of nodes, newest first" isShort=${true} rows=${events} columns=${[
          { key: 'at', title: 'At', number: true, cell: (event) => duration(event.at_s) },
          { key: 'subject', title: 'Node', heads: true, class: 'nowrap' },
          { key: 'observed', title: 'Observed', class: 'text' },
          { key: 'decided', title: 'Decided', class: 'text' },
        ]} />
      <//>`}`;
}

/** What is under way from each node to each other one. */
function Lanes({ nodes }) {
  const rows = nodes.flatMap(({ node, lanes }) => lanes.map((lane) => ({ from: node, ...lane })));
  const full = ({ unsent_bytes: unsent }) => unsent > 0;
  return html`<${Table}
    caption="Lanes between nodes"
    isShort=${rows.length > 20}
    rows=${rows}
    rowKey=${({ from, to }) => `${from} ${to}`}
    tone=${(lane) => (full(lane) ? 'marked' : '')}
    empty="Nodes have told of no lanes so far."
    columns=${[
    { key: 'lane', title: 'From, to', heads: true, class: 'nowrap', cell: ({ from, to }) => `node ${from} → node ${to}` },
    {
      key: 'used',
      title: 'Credit in use',
      number: true,
      hint: 'Of the bytes that may be unfinished at the receiver',
      cell: ({ unfinished_bytes: used, credit_bytes: credit }) =>
        credit === 0
          ? NONE
          : html`<span class="nowrap"><${Bar} share=${used / credit} /> ${percent(used / credit)}</span>`,
    },
    { key: 'unfinished', title: 'Unfinished there', number: true, cell: (lane) => bytes(lane.unfinished_bytes) },
    { key: 'credit', title: 'Credit', number: true, cell: (lane) => bytes(lane.credit_bytes) },
    {
      key: 'unsent',
      title: 'Waits here',
      number: true,
      hint: 'For credit, or for the network',
      cell: (lane) => bytes(lane.unsent_bytes),
    },
  ]} />`;
}

const isSilent = (node) => node.lost != null || node.age_s == null || node.age_s >= PATIENCE_S;

function Status({ node }) {
  const silent = isSilent(node);
  const why = node.lost != null ? 'lost' : node.age_s == null ? 'has told nothing' : 'does not answer';
  return html`<span class=${`state ${silent ? 'failed' : 'running'}`}>
    <${Icon}
      kind=${silent ? 'error' : 'ok'} /> ${silent ? why : 'answers'}
  </span>`;
}

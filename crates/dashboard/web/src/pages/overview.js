// What a job does, and what is wrong with it.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { ApiError, act, usePoll } from '../api.js';
import { Chart, rates } from '../chart.js';
import { workersBusy } from '../differences.js';
import { age, bytes, byteRate, count, delay, duration, percent, rate, timestamp, whole, NONE } from '../format.js';
import { Dialog, Figure, Figures, Icon, Notice, Sql } from '../ui.js';
import { Problems } from '../problems.js';

export function Overview({ path, id, summary, between, info }) {
  const { now } = between;
  const behind = delay(summary.watermark_ms, Date.now());
  const share = summary.memory_limit_bytes ? summary.memory_used_bytes / summary.memory_limit_bytes : null;
  return html`
    ${
      summary.problems.length > 0
        ? html`<section class="panel" aria-labelledby="problems">
          <header><h2 id="problems">Problems</h2></header>
          <${Problems} job=${id} problems=${summary.problems} />
        </section>`
        : summary.state === 'running' && html`<p class="fine"><${Icon} kind="ok" /> No problems found.</p>`
    }
    ${info?.actions && html`<${Actions} ...${{ path, summary }} />`}
    <${Figures}>
      <${Figure} label="Rows in" value=${rate(summary.rows_in_per_s)} note=${`${count(summary.rows_in)} so far`} />
      <${Figure} label="Read" value=${byteRate(summary.bytes_in_per_s)} />
      <${Figure} label="Rows out" value=${rate(summary.rows_out_per_s)} note=${`${count(summary.rows_out)} so far`} />
      <${Figure}
        label="Watermark"
        value=${timestamp(summary.watermark_ms)}
        note=${behind == null ? '' : `${duration(behind)} behind the clock`} />
      <${Figure}
        label="Memory"
        value=${bytes(summary.memory_used_bytes)}
        note=${`${percent(share)} of ${bytes(summary.memory_limit_bytes)}`} />
      <${Figure}
        label="Workers busy"
        value=${percent(workersBusy(between))}
        note=${now ? `${whole(now.workers.length)} workers, ${count(now.queued)} tasks wait` : ''} />
      <${Figure}
        label="Trigger delay, p99"
        value=${now?.trigger_delay.count ? duration(now.trigger_delay.p99_s) : NONE}
        note=${now?.trigger_delay.count ? `longest ${duration(now.trigger_delay.max_s)}` : ''} />
      <${Figure}
        label="Checkpoint"
        value=${summary.checkpoint_age_s == null ? NONE : `${age(summary.checkpoint_age_s)} ago`}
        note=${summary.checkpoint_age_s == null ? (summary.state_dir ? 'none is complete' : 'no state directory') : ''} />
      <${Figure} label="Restarts" value=${whole(summary.restarts)} />
    <//>
    <${Charts} path=${path} />
    <${Sql} summary=${summary} />`;
}

function Charts({ path }) {
  const { data, error } = usePoll(`${path}/history`, { every: 2000 });
  if (!data && error) return html`<${Notice} title="There are no charts.">${error.message}<//>`;
  if (!data) return html`<section class="charts" aria-label="The last 15 minutes"></section>`;
  const x = data.at_ms.map((ms) => ms / 1000);
  const behind = data.watermark_ms.map((ms, i) => delay(ms, data.at_ms[i]));
  const one = (label, values, tone, more) => [{ label, values, tone, ...more }];
  return html`<section class="charts" aria-label="The last 15 minutes">
    <${Chart}
      title="Rows in"
      x=${x}
      format=${rateOf}
      series=${one('rows in', rates(data.at_ms, data.rows_in), 'blue', { fill: true })} />
    <${Chart}
      title="Rows out"
      x=${x}
      format=${rateOf}
      series=${one('rows out', rates(data.at_ms, data.rows_out), 'teal', { fill: true })} />
    <${Chart}
      title="Memory"
      x=${x}
      format=${bytes}
      isBytes=${true}
      series=${[...one('used', data.memory_used_bytes, 'blue', { fill: true }), ...one('state', data.state_bytes, 'orange')]} />
    <${Chart}
      title="Watermark behind the clock"
      x=${x}
      format=${duration}
      series=${one('behind', behind, 'purple', { fill: true })} />
    <${Chart} title="Workers busy" x=${x} format=${percent} series=${one('busy', data.busy, 'blue', { fill: true })} />
    <${Chart}
      title="Tasks that wait"
      x=${x}
      format=${count}
      series=${one('wait', data.queued, 'orange', { fill: true })} />
  </section>`;
}

const rateOf = (value) => `${count(value)}/s`;

function Actions({ path, summary }) {
  const [asks, setAsks] = useState(null);
  const [said, setSaid] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const run = async (name, body) => {
    setAsks(null);
    setBusy(true);
    try {
      setSaid({ text: (await act(`${path}/${name}`, body)).message });
    } catch (error) {
      const text =
        error instanceof ApiError
          ? [error.message, error.advice].filter(Boolean).join(': ')
          : 'The server does not answer.';
      setSaid({ text, isError: true });
    }
    setBusy(false);
  };
  const isRunning = summary.state === 'running';
  const close = () => setAsks(null);
  return html`<section class="actions" aria-label="Actions">
    ${summary.state_dir &&
      html`<button
        type="button"
        disabled=${!isRunning || isBusy}
        onClick=${() => run('checkpoint')}>Take a checkpoint</button>`}
    ${summary.can_rescale &&
      html`<button
        type="button"
        disabled=${!isRunning || isBusy}
        onClick=${() => setAsks('rescale')}>Rescale…</button>`}
    <button
      type="button"
      class="danger"
      disabled=${!(isRunning || summary.state === 'starting' || summary.state === 'restarting') || isBusy}
      onClick=${() => setAsks('stop')}>Stop…</button>
    <span role="status" class=${said?.isError ? 'error' : 'soft'}>${said?.text}</span>
    ${
      asks === 'stop' &&
      html`<${Dialog} title=${`Stop ${summary.name}?`} onClose=${close}>
      <p>
        ${summary.state_dir
          ? 'It takes a checkpoint first. The same command, run again, goes on from there.'
          : 'It has no state directory: what its windows hold is lost, and it cannot go on from here.'}
      </p>
      <div class="buttons">
        <button type="button" onClick=${close} autofocus>Keep it running</button>
        <button type="button" class="danger" onClick=${() => run('stop')}>Stop</button>
      </div>
    <//>`
    }
    ${asks === 'rescale' &&
      html`<${Rescale} nodes=${summary.nodes} onClose=${close} onRun=${(nodes) => run('rescale', { nodes })} />`}
  </section>`;
}

function Rescale({ nodes, onClose, onRun }) {
  const [wanted, setWanted] = useState(String(nodes));
  const submit = (event) => {
    event.preventDefault();
    onRun(wanted === '' ? null : Number(wanted));
  };
  return html`<${Dialog} title="Rescale" onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>The job takes a checkpoint and goes on from it on as many nodes as you say. It runs on ${whole(nodes)} now.</p>
      <label>Nodes (none: all that are there)<input
        type="number"
        min="1"
        step="1"
        value=${wanted}
        autofocus
        onInput=${(event) => setWanted(event.currentTarget.value)} />
      </label>
      <div class="buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="primary">Rescale</button>
      </div>
    </form>
  <//>`;
}

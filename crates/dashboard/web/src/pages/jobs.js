// All jobs of the process, with what is wrong with them.
import { html } from '../html.js';
import { href, setParams } from '../route.js';
import { usePoll } from '../api.js';
import { age, bytes, count, delay, duration, percent, plural, rate, timestamp, whole, NONE } from '../format.js';
import { Bar, Filter, Notice, State, Table, sortOf, sortParams, sorted } from '../ui.js';
import { Problems } from '../problems.js';

const SHOWN_PROBLEMS = 3;
const RANKS = { failed: 0, restarting: 1, starting: 2, running: 3, stopping: 4, stopped: 5, finished: 6 };

const watermarkDelay = (job, now) => delay(job.watermark_ms, now);

function columns(isServe, now) {
  const share = (job) => (job.memory_limit_bytes ? job.memory_used_bytes / job.memory_limit_bytes : null);
  return [
    {
      key: 'name',
      title: 'Job',
      heads: true,
      value: (job) => job.name,
      cell: (job) => html`<a href=${href(job.id)}>${job.name}</a>`,
    },
    isServe && { key: 'file', title: 'File', class: 'soft', value: (job) => job.file, cell: (job) => job.file ?? NONE },
    {
      key: 'state',
      title: 'State',
      value: (job) => RANKS[job.state],
      cell: (job) => html`<${State} state=${job.state} />`,
    },
    {
      key: 'in',
      title: 'Rows in',
      number: true,
      value: (job) => job.rows_in_per_s,
      cell: (job) => rate(job.rows_in_per_s),
    },
    {
      key: 'out',
      title: 'Rows out',
      number: true,
      value: (job) => job.rows_out_per_s,
      cell: (job) => rate(job.rows_out_per_s),
    },
    {
      key: 'watermark',
      title: 'Watermark',
      class: 'nowrap',
      value: (job) => job.watermark_ms,
      cell: (job) => timestamp(job.watermark_ms),
    },
    {
      key: 'delay',
      title: 'Delay',
      number: true,
      hint: 'How far the watermark is behind the clock',
      value: (job) => watermarkDelay(job, now),
      cell: (job) => duration(watermarkDelay(job, now)),
    },
    {
      key: 'memory',
      title: 'Memory',
      number: true,
      value: (job) => job.memory_used_bytes,
      cell: (job) =>
        html`<span class="nowrap">
          ${bytes(job.memory_used_bytes)} <${Bar}
            share=${share(job)}
            tone=${share(job) > 0.8 ? 'warning' : ''} /> <small>
            ${percent(share(job))}
          </small>
        </span>`,
    },
    {
      key: 'checkpoint',
      title: 'Checkpoint',
      number: true,
      hint: 'Time since the last checkpoint was complete',
      value: (job) => job.checkpoint_age_s,
      cell: (job) => (job.checkpoint_age_s == null ? NONE : `${age(job.checkpoint_age_s)} ago`),
    },
    {
      key: 'restarts',
      title: 'Restarts',
      number: true,
      value: (job) => job.restarts,
      cell: (job) => whole(job.restarts),
    },
    {
      key: 'running',
      title: 'Running',
      number: true,
      value: (job) => job.running_s,
      cell: (job) => age(job.running_s),
    },
  ].filter(Boolean);
}

function Below({ job }) {
  const problems = job.problems.slice(0, SHOWN_PROBLEMS);
  const more = job.problems.length - problems.length;
  return html`<div class="under-job">
    ${job.error && html`<pre class="error-text">${job.error}</pre>`}
    ${problems.length > 0 &&
      html`<${Problems} job=${job.id} problems=${problems} label=${`Problems of ${job.name}`} />`}
    ${more > 0 && html`<a href=${href(job.id)}>${plural(more, 'more problem')}</a>`}
  </div>`;
}

export function Jobs({ params, info }) {
  const { data, error } = usePoll('/jobs');
  if (!data)
    return error
      ? html`<${Notice} kind="error" title=${error.message}>${error.advice}<//>`
      : html`<p class="empty">Asking the server…</p>`;
  const { jobs } = data;
  const isServe = info?.mode === 'serve' || jobs.some((job) => job.file);
  const now = Date.now();
  const all = columns(isServe, now);
  const wanted = (params.q ?? '').toLowerCase();
  const isWanted = (job) =>
    [job.name, job.file, job.state, job.error, ...job.problems.map((p) => p.text)].some((text) =>
      text?.toLowerCase().includes(wanted),
    );
  const sort = sortOf(params, null);
  const shown = sorted(jobs.filter(isWanted), all, sort);
  const number = (state) => jobs.filter((job) => job.state === state).length;
  const troubled = jobs.filter((job) => job.problems.some((p) => p.severity !== 'info')).length;
  const total = jobs.reduce((sum, job) => sum + (job.rows_in_per_s ?? 0), 0);
  return html`
    <div class="title-row">
      <h1>Jobs</h1>
      <p class="sum">
        ${plural(jobs.length, 'job')} · ${whole(number('running'))} running
        ${number('failed') > 0 && html` · <strong class="error">${whole(number('failed'))} failed</strong>`}
        ${troubled > 0 && html` · <strong class="warning">${whole(troubled)} with problems</strong>`}
        ${' · '}<span class="nowrap">${count(total)}${'\u00a0'}rows/s in</span>
      </p>
      <${Filter}
        label="Filter jobs"
        value=${params.q}
        onInput=${(q) => setParams({ q })}
        shown=${shown.length}
        all=${jobs.length} />
    </div>
    <div class="panel flush">
      <${Table}
        caption="Jobs"
        columns=${all}
        rows=${shown}
        rowKey=${(job) => job.id}
        sort=${sort}
        onSort=${(next) => setParams(sortParams(next))}
        below=${(job) => (job.error || job.problems.length > 0) && html`<${Below} job=${job} />`}
          tone=${(job) => (job.state === 'failed' ? 'failed' : '')}
        empty=${jobs.length === 0 ? 'There is no job yet.' : 'No job has this text.'} />
    </div>`;
}

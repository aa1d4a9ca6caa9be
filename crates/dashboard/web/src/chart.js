// A line chart over time (or over any x), in the colours of the theme.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { html } from './html.js';
import { useTheme } from './theme.js';
import { NONE } from './format.js';

const POWERS_OF_TWO = Array.from({ length: 50 }, (_, i) => 2 ** i);
const cursors = uPlot.sync('millstream');

/**
 * `x`: seconds since 1970, or numbers when `isTime` is false; `series`: `{label, values, tone, dash, fill}`; `format`:
 * of a value. Charts that are drawn together have one cursor.
 */
export function Chart({ title, x, series, format, height = 120, isTime = true, isBytes = false, points = false }) {
  const box = useRef(null);
  const plot = useRef(null);
  const theme = useTheme();
  const latest = useRef(null);
  latest.current = { x, series, format };
  const names = series.map(({ label }) => label).join('\n');

  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      const width = box.current.clientWidth;
      plot.current = new uPlot(
        options({ width, height, latest, isTime, isBytes, points }),
        aligned(latest.current),
        box.current,
      );
    };
    draw();
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (plot.current && width > 0 && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [theme, names, isTime, points, height]);

  useEffect(() => plot.current?.setData(aligned({ x, series })));

  const last = ({ values }) => values?.findLast?.((value) => value != null) ?? null;
  const say = (entry) =>
    `${entry.label}: ${last(entry) == null ? 'nothing yet' : `now ${format(last(entry))}, highest ${format(highest(entry.values))}`}`;
  return html`<figure class="chart">
    <figcaption>
      <span class="chart-title">${title}</span>
      <span class="chart-values">
        ${series.map((entry) =>
          html`<span key=${entry.label} class="key">
            <i class=${`swatch ${entry.tone} ${entry.dash ? 'dashed' : ''}`} aria-hidden="true"></i>
            ${series.length > 1 ? `${entry.label} ` : ''}
            <b>${last(entry) == null ? NONE : format(last(entry))}</b>
          </span>`)}
      </span>
    </figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${`${title}. ${series.map(say).join('; ')}`}></div>
  </figure>`;
}

function highest(values) {
  let most = -Infinity;
  for (const value of values) if (value != null && value > most) most = value;
  return most;
}

const aligned = ({ x, series }) => [x, ...series.map(({ values }) => values)];

function options({ width, height, latest, isTime, isBytes, points }) {
  const css = getComputedStyle(document.documentElement);
  const colour = (name) => css.getPropertyValue(`--${name}`).trim();
  const font = `11px ${css.getPropertyValue('--sans')}`;
  const axis = { stroke: colour('soft'), font, grid: { stroke: colour('grid'), width: 1 }, ticks: { show: false } };
  return {
    width: Math.max(120, width),
    height,
    padding: [6, isTime ? 24 : 12, 0, 0],
    legend: { show: false },
    cursor: {
      sync: isTime ? { key: cursors.key } : undefined,
      points: { size: 6 },
      drag: { x: false, y: false },
      y: false,
    },
    scales: {
      x: { time: isTime },
      // From zero, so that a small change does not look like a large one.
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? high * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 22,
        space: 70,
        values: isTime
          ? (_, splits, _axis, _space, step) => splits.map((at) => clockOf(at).slice(0, step < 60 ? 8 : 5))
          : (_, splits) => splits.map((v) => v.toLocaleString('en-US')),
      },
      {
        ...axis,
        size: 64,
        space: 28,
        incrs: isBytes ? POWERS_OF_TWO : undefined,
        values: (_, splits) => splits.map((value) => latest.current.format(value)),
      },
    ],
    series: [
      {},
      ...latest.current.series.map(({ label, tone, dash, fill }) => ({
        label,
        stroke: colour(tone),
        width: points ? 0 : 1.5,
        dash: dash ? [5, 4] : undefined,
        fill: fill ? colour(`${tone}-fill`) : undefined,
        points: points ? { show: true, size: 4, fill: colour(tone) } : { show: false },
        spanGaps: false,
      })),
    ],
    hooks: {
      init: [
        (u) => {
          const tip = document.createElement('div');
          tip.className = 'tip';
          tip.hidden = true;
          u.over.append(tip);
        },
      ],
      setCursor: [(u) => showTip(u, latest.current, isTime)],
    },
  };
}

function showTip(u, { series, format }, isTime) {
  const tip = u.over.querySelector('.tip');
  const { idx, left } = u.cursor;
  tip.hidden = idx == null || left < 0;
  if (tip.hidden) return;
  const at = u.data[0][idx];
  const lines = series.map(
    ({ label }, i) =>
      `${series.length > 1 ? `${label} ` : ''}${u.data[i + 1][idx] == null ? NONE : format(u.data[i + 1][idx])}`,
  );
  tip.textContent = `${isTime ? clockOf(at) : at.toLocaleString('en-US')}  ${lines.join('  ')}`;
  const isRight = left > u.over.clientWidth / 2;
  tip.style.left = isRight ? 'auto' : `${left + 8}px`;
  tip.style.right = isRight ? `${u.over.clientWidth - left + 8}px` : 'auto';
}

const clockOf = (seconds) => new Date(seconds * 1000).toLocaleTimeString('en-GB');

/** The growth of a counter in a second, between points; over `width` points, so that a line is calm. */
export function rates(at, counter, width = 5) {
  return counter.map((value, i) => {
    const from = Math.max(0, i - width);
    const seconds = (at[i] - at[from]) / 1000;
    return i === 0 || seconds <= 0 || value < counter[from] ? null : (value - counter[from]) / seconds;
  });
}

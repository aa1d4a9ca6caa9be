// Decisions along the time, a lane for each subject.
import { html } from '../html.js';
import { duration, plural } from '../format.js';
import { KINDS, kindOf } from '../variants.js';

export function Timeline({ lanes, elapsed }) {
  if (lanes.length === 0) return null;
  const last = Math.max(elapsed, 1e-9);
  return html`<div class="timeline">
    ${lanes.map(
      (lane) => html`<div key=${lane.name} class="lane">
      <span class="lane-name">${lane.name}</span>
      <div
        class="lane-track"
        role="img"
        aria-label=${`${lane.name}: ${plural(lane.events.length, 'decision')}, ${spoken(lane)}`}>
        ${lane.events.map((event, i) =>
          html`<i
            key=${i}
            class=${`event ${kindOf(event)}`}
            style=${{ left: `${(100 * event.at_s) / last}%` }}
            title=${`${duration(event.at_s)}: ${event.observed}: ${event.decided}`}>
          </i>`)}
      </div>
    </div>`,
    )}
    <div class="lane ends" aria-hidden="true">
      <span></span>
      <div><span>0</span><span>${duration(last / 2)}</span><span>${duration(last)}</span></div>
    </div>
  </div>`;
}

const spoken = ({ events }) =>
  Object.entries(KINDS)
    .map(([kind, [label]]) => [events.filter((event) => kindOf(event) === kind).length, label])
    .filter(([number]) => number > 0)
    .map(([number, label]) => `${number} ${label}`)
    .join(', ');

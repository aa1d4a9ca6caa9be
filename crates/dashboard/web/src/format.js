// Numbers as people read them. A no-break space stands before each unit.
const NBSP = '\u00a0';
export const NONE = '–';

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** Three significant digits, so that the width of a number that changes hardly does. */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2);
}

/** Of 1.2e6: "1.20 M"; numbers below 10,000 in full. */
export function count(value) {
  if (value == null) return NONE;
  const size = Math.abs(value);
  if (size < 10_000) return Number.isInteger(value) || size >= 100 ? grouped.format(value) : digits(value);
  const power = Math.min(4, Math.floor(Math.log10(size * 1.0005) / 3));
  return `${digits(value / 1000 ** power)}${NBSP}${['', 'k', 'M', 'G', 'T'][power]}`;
}

/** All digits of a whole number. */
export const whole = (value) => (value == null ? NONE : grouped.format(value));

export const rate = (value) => (value == null ? NONE : `${count(value)}${NBSP}rows/s`);

export function bytes(value) {
  if (value == null) return NONE;
  const size = Math.abs(value);
  if (size < 1024) return `${grouped.format(value)}${NBSP}B`;
  const power = Math.min(5, Math.floor(Math.log(size * 1.0005) / Math.log(1024)));
  return `${digits(value / 1024 ** power)}${NBSP}${['', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][power]}`;
}

export const byteRate = (value) => (value == null ? NONE : `${bytes(value)}/s`);

export function duration(seconds) {
  if (seconds == null) return NONE;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return `0${NBSP}s`;
  if (seconds < 0.9995e-3) return `${digits(seconds * 1e6)}${NBSP}µs`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)}${NBSP}ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)}${NBSP}s`;
  const s = Math.round(seconds);
  const two = (large, unit, small, less) => `${large}${NBSP}${unit}${small ? ` ${small}${NBSP}${less}` : ''}`;
  if (s < 3600) return two(Math.floor(s / 60), 'min', s % 60, 's');
  if (s < 86_400) return two(Math.floor(s / 3600), 'h', Math.floor((s % 3600) / 60), 'min');
  return two(Math.floor(s / 86_400), 'd', Math.floor((s % 86_400) / 3600), 'h');
}

/** Time that has passed, to the second: an age that is not read to a tenth does not flicker. */
export const age = (seconds) =>
  seconds == null ? NONE : duration(seconds < 1 ? 0 : Math.floor(seconds)).replace('.0', '');

export const percent = (share) =>
  share == null ? NONE : `${share > 0 && share < 0.01 ? '<1' : Math.round(share * 100)}${NBSP}%`;

export const nanos = (value) => (value == null ? NONE : `${digits(value)}${NBSP}ns`);

/** Event time, as SQL shows a TIMESTAMP. */
export function timestamp(ms) {
  if (ms == null) return NONE;
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return ms > 0 ? 'end of time' : 'beginning of time';
  return date.toISOString().replace('T', ' ').slice(0, 19);
}

/** Wall clock, where the reader is. */
export const clock = (ms) => (ms == null ? NONE : new Date(ms).toLocaleTimeString('en-GB'));

const WEEK_MS = 7 * 86_400_000;

/**
 * How far a watermark is behind the clock in seconds; null for rows that are not of the past week, such as a file of
 * last year.
 */
export function delay(watermark, now) {
  if (watermark == null || now == null) return null;
  const behind = now - watermark;
  return behind < WEEK_MS && behind > -60_000 ? Math.max(0, behind) / 1000 : null;
}

export const plural = (number, one, many = `${one}s`) => `${whole(number)}${NBSP}${number === 1 ? one : many}`;

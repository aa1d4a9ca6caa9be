// What is shown is in the fragment of the address: `#/jobs`, `#/jobs/{id}`, `#/jobs/{id}/{tab}?parameters`.
import { useEffect, useState } from 'preact/hooks';

/** @typedef {{id: string|null, tab: string, params: Record<string, string>}} Route */

/** @returns {Route} */
function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [root, id, tab] = path.split('/').map(decode);
  const params = Object.fromEntries(new URLSearchParams(query));
  if (root !== 'jobs' || !id) return { id: null, tab: 'jobs', params };
  return { id, tab: tab || 'overview', params };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a page; parameters that are null, undefined or '' are left out. */
export function href(id, tab = 'overview', params = {}) {
  const query = Object.entries(params)
    .filter(([, value]) => value != null && value !== '')
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
    .join('&');
  const path = id == null ? '#/jobs' : `#/jobs/${encodeURIComponent(id)}${tab === 'overview' ? '' : `/${tab}`}`;
  return query ? `${path}?${query}` : path;
}

const listeners = new Set();
const tell = () => listeners.forEach((listener) => listener());
addEventListener('hashchange', tell);

/** Changes some parameters of the page that is shown, without a new entry in the browser's history. */
export function setParams(changes) {
  const { id, tab, params } = parse(location.hash);
  history.replaceState(null, '', href(id, tab, { ...params, ...changes }));
  tell();
}

/** @returns {Route} */
export function useRoute() {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const listener = () => setRoute(parse(location.hash));
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return route;
}

// The dashboard: what surrounds the pages.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import './app.css';
import { html } from './html.js';
import { href, useRoute } from './route.js';
import { giveToken, tryNow, useConnection, usePoll } from './api.js';
import { theme, turnTheme, useTheme } from './theme.js';
import { Dialog, Icon } from './ui.js';
import { age } from './format.js';
import { Jobs } from './pages/jobs.js';
import { JobFrame } from './job_frame.js';

function App() {
  const route = useRoute();
  const connection = useConnection();
  const { data: info } = usePoll('', { every: 30_000 });
  useEffect(() => {
    if (route.id == null) document.title = 'Jobs · Millstream';
  }, [route.id]);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <nav aria-label="Dashboard">
        <a class="brand" href="#/jobs"><img src="icon.svg" alt="" width="20" height="20" /> Millstream</a>
        <a href="#/jobs" aria-current=${route.id == null ? 'page' : undefined}>Jobs</a>
        ${route.id != null &&
          html`<span class="crumb" aria-hidden="true">/</span>
            <a class="crumb-job" href=${href(route.id)} aria-current=${route.tab === 'overview' ? 'page' : undefined}>
              ${route.id}
            </a>`}
      </nav>
      <div class="top-right">
        ${info &&
          html`<small class="version">
            ${info.mode} · ${info.version}
            ${info.commit && ` · ${info.commit.slice(0, 8)}`}
          </small>`}
        <${ThemeSwitch} />
      </div>
    </header>
    <${Outage} ...${{ connection, info }} />
    ${connection.token && html`<${TokenDialog} isRefused=${connection.token === 'refused'} />`}
    <main id="main" tabindex="-1">
      ${route.id == null
        ? html`<${Jobs} params=${route.params} info=${info} />`
        : html`<${JobFrame} key=${route.id} route=${route} info=${info} />`}
    </main>`;
}

/** The address is the page's state, so that a plain link to an anchor would leave the page. */
function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function ThemeSwitch() {
  useTheme();
  const isDark = theme() === 'dark';
  return html`<button
    type="button"
    class="quiet"
    aria-pressed=${isDark}
    aria-label="Dark theme"
    title=${isDark ? 'Use the light theme' : 'Use the dark theme'}
    onClick=${turnTheme}>
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      ${isDark
        ? html`<path class="stroke" d="M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1Z" />`
        : html`<path
          class="stroke"
          d="M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M13 3l-1.1 1.1M4.1 11.9 3 13" />`}
    </svg>
  </button>`;
}

/** Says that the server does not answer, and how old the numbers are. */
function Outage({ connection, info }) {
  const isOut = connection.failures > 1;
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!isOut) return undefined;
    const timer = setInterval(() => setTick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [isOut]);
  const now = performance.now();
  return html`<aside class=${isOut ? 'outage' : 'outage gone'} aria-label="Connection">
    <span role="status">${isOut && html`<${Icon} kind="error" /> The server does not answer.`}</span>
    ${isOut &&
      html`<span>What is shown is <b>
        ${age((now - connection.answeredAt) / 1000)}
      </b> old.${info?.mode === 'run' && ' A server of millstream run ends with its jobs.'}
      </span> <button type="button" onClick=${tryNow}>Try now</button>`}
  </aside>`;
}

function TokenDialog({ isRefused }) {
  const [token, setToken] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) giveToken(token.trim());
  };
  return html`<${Dialog} title="Token">
    <form onSubmit=${submit}>
      <p>This server wants the token that it was started with. It is kept until the tab is closed.</p>
      <label>Token<input
        type="password"
        autocomplete="current-password"
        autofocus
        value=${token}
        aria-invalid=${isRefused}
        aria-describedby="token-error"
        onInput=${(event) => setToken(event.currentTarget.value)} />
      </label>
      <p id="token-error" class="error" role="alert">${isRefused && 'The server refused this token.'}</p>
      <div class="buttons"><button type="submit" class="primary">Continue</button></div>
    </form>
  <//>`;
}

render(html`<${App} />`, document.getElementById('app'));

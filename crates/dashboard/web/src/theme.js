// Dark or light: as the system says, unless somebody chose.
import { useEffect, useState } from 'preact/hooks';

const KEY = 'millstream-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set();

export const theme = () => localStorage.getItem(KEY) ?? (system.matches ? 'dark' : 'light');

function apply() {
  document.documentElement.dataset.theme = theme();
  listeners.forEach((listener) => listener(theme()));
}

export function turnTheme() {
  const next = theme() === 'dark' ? 'light' : 'dark';
  if (next === (system.matches ? 'dark' : 'light')) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  apply();
}

export function useTheme() {
  const [current, setCurrent] = useState(theme);
  useEffect(() => {
    listeners.add(setCurrent);
    return () => listeners.delete(setCurrent);
  }, []);
  return current;
}

system.addEventListener('change', apply);
apply();

// Updates live pages and adds conveniences. Without it the pages have the same content.
'use strict';

const store = {
  get(name) { try { return localStorage.getItem(name); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(name, value); } catch { /* private windows */ } },
};

// ---- theme

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}
setTheme(store.get('theme'));

function switchTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  setTheme(dark ? 'light' : 'dark');
  store.set('theme', document.documentElement.dataset.theme);
}

// ---- units of amounts

function decimal(wei, decimals) {
  if (decimals === 0) return group(wei);
  const digits = wei.padStart(decimals + 1, '0');
  const part = digits.slice(digits.length - decimals).replace(/0+$/, '');
  const whole = group(digits.slice(0, digits.length - decimals));
  return part ? `${whole}.${part}` : whole;
}
const group = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ',');

function setUnit(decimals) {
  const unit = { 18: document.body.dataset.currency, 9: 'gwei', 0: 'wei' }[decimals];
  for (const amount of document.querySelectorAll('[data-wei]')) {
    amount.textContent = `${decimal(amount.dataset.wei, Number(decimals))} ${unit}`;
  }
}

// ---- times: exact in the page, relative beside it

const STEPS = [[86_400, 'day'], [3_600, 'hour'], [60, 'minute'], [1, 'second']];
const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: 'auto' });

function ago(ms) {
  const seconds = Math.round((Date.now() - ms) / 1_000);
  const [size, unit] = STEPS.find(([size]) => Math.abs(seconds) >= size) ?? [1, 'second'];
  return relative.format(-Math.trunc(seconds / size), unit);
}

function refreshTimes() {
  for (const time of document.querySelectorAll('time[data-ms]')) {
    const exact = (time.dataset.exact ??= time.textContent);
    const compact = time.closest('td');
    time.title = exact;
    time.textContent = compact ? ago(Number(time.dataset.ms)) : `${exact} (${ago(Number(time.dataset.ms))})`;
  }
}

// ---- age of the newest final block, by the reader's clock

let staleTimer = null;

function refreshStale() {
  clearTimeout(staleTimer);
  const notice = document.getElementById('stale');
  if (!notice) return;
  const left = Number(notice.dataset.staleMs) - Date.now();
  notice.hidden = left >= 0;
  if (left >= 0) staleTimer = setTimeout(refreshStale, left + 1);
}

// ---- equal values are highlighted; values can be copied

function highlightEqual(event) {
  const value = event.target.closest?.('.value')?.dataset.value;
  for (const other of document.querySelectorAll('.value.same')) other.classList.remove('same');
  if (!value) return;
  for (const other of document.querySelectorAll('.value')) {
    if (other.dataset.value === value) other.classList.add('same');
  }
}

async function copy(event) {
  const button = event.target.closest?.('[data-copy]');
  if (!button) return;
  // The browser may refuse; then the button shows no success.
  if (await navigator.clipboard.writeText(button.dataset.copy).then(() => false, () => true)) return;
  button.classList.add('done');
  setTimeout(() => button.classList.remove('done'), 1_500);
}

// ---- live parts: fetched again as the server draws them. At most twice a second on the home page, every two seconds on other
// pages, and less and less often on pages for which the node replays a block

const REPLAYS_BLOCK = /^\/tx\//.test(location.pathname);
// Frequent updates are motion, and some readers asked for less motion.
let pause = matchMedia('(prefers-reduced-motion: reduce)').matches ? 5_000 : location.pathname === '/' ? 500 : 2_000;
const parts = () => [...document.querySelectorAll('[data-live]')].filter((part) => part.id);
let fetching = false;
let pending = false;

// Backoff in milliseconds for pages and for the event stream, while the server is busy or offline.
const MIN_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 30_000;
const nextBackoff = (ms) => (ms ? Math.min(ms * 2, MAX_BACKOFF_MS) : MIN_BACKOFF_MS);
/** Jitter, so that not all pages reconnect at the same moment after a restart. */
const withJitter = (ms) => ms * (0.5 + Math.random() / 2);
let backoff = 0;

/** Ids of parts with pending updates. */
const stale = new Set();

/** Returns true if the reader uses this part: focus, pressed button or selected text. Such a part is not replaced. */
function isHeld(part) {
  const selection = getSelection();
  const isSelected = selection && !selection.isCollapsed && selection.containsNode(part, true);
  return isSelected || part.contains(document.activeElement) || part.matches(':active');
}

/** Updates stale parts that the reader has left. The focus changes only after the event, so this waits for a timeout. */
function refreshLeftParts() {
  if (stale.size === 0) return;
  setTimeout(() => {
    if (parts().some((part) => stale.has(part.id) && !isHeld(part))) refresh();
  });
}

async function refresh() {
  if (document.hidden) return;
  if (fetching) { pending = true; return; }
  if (parts().every(isHeld)) return;
  fetching = true;
  const isRedrawn = await redraw().catch(() => false);
  backoff = isRedrawn ? 0 : nextBackoff(backoff);
  await new Promise((resolve) => setTimeout(resolve, Math.max(pause, withJitter(backoff))));
  if (REPLAYS_BLOCK) pause = Math.min(2 * pause, 60_000);
  fetching = false;
  const isDue = pending || !isRedrawn;
  pending = false;
  if (isDue) refresh();
}

/** Fetches the page and replaces its live parts. Returns true if the server responded. */
async function redraw() {
  const response = await fetch(location.href, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(MAX_BACKOFF_MS) });
  // The page no longer exists, so its parts stop being live.
  if (response.status === 404) for (const part of parts()) delete part.dataset.live;
  if (!response.ok) return response.status === 404;
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  for (const part of parts()) {
    const next = fresh.getElementById(part.id);
    if (next && isHeld(part)) continue;
    stale.delete(part.id);
    if (!next) continue;
    announce(part, next);
    part.replaceChildren(...next.childNodes);
    // A final part stops being live.
    if (!('live' in next.dataset)) delete part.dataset.live;
  }
  decorate();
  return true;
}

/** Parts whose status a screen reader announces when it changes. Other parts change too often for that. */
const ANNOUNCED = '[data-live="transaction"], [data-live="block-page"]';
let announcer = null;

function prepareAnnouncer() {
  if (!document.querySelector(ANNOUNCED)) return;
  announcer = document.createElement('p');
  announcer.className = 'hidden';
  announcer.setAttribute('role', 'status');
  document.querySelector('main').append(announcer);
}

function announce(part, next) {
  if (!announcer || !part.matches(ANNOUNCED)) return;
  const row = (of) => [...(of.querySelector('dl .tag[class*="is-"]')?.closest('div').children ?? [])];
  const text = (of) => row(of).map((cell) => cell.textContent).join(': ');
  if (text(next) !== text(part)) announcer.textContent = text(next);
}

function handleTick(tick) {
  document.dispatchEvent(new CustomEvent('tick', { detail: tick }));
  if (tick.kind === 'block') {
    for (const place of document.querySelectorAll('[data-live="block"]')) place.textContent = group(String(tick.number));
  }
  if (tick.kind === 'dag' || parts().length === 0) return;
  for (const part of parts()) stale.add(part.id);
  refresh();
}

// Browsers open few connections to a server under HTTP/1.1, and an event stream takes one of them. So hidden pages close
// theirs. An EventSource gives up for good when it is refused, so the reconnection is done here.
let events = null;
let retry = null;
let reconnectDelay = 0;

function listen() {
  clearTimeout(retry);
  if (events || document.hidden) return;
  events = new EventSource('/live');
  events.onopen = () => {
    // Events between the error and the reconnection were missed.
    if (reconnectDelay > 0) handleTick({ kind: 'missed' });
    reconnectDelay = 0;
  };
  events.onmessage = ({ data }) => handleTick(JSON.parse(data));
  events.onerror = () => {
    stopListening();
    reconnectDelay = nextBackoff(reconnectDelay);
    retry = setTimeout(listen, withJitter(reconnectDelay));
  };
}

function stopListening() {
  clearTimeout(retry);
  events?.close();
  events = null;
}

function live() {
  if (parts().length === 0 && !document.querySelector('[data-live="block"]')) return;
  const hide = () => { stopListening(); reconnectDelay = 0; };
  const show = () => {
    if (events || document.hidden) return;
    listen();
    handleTick({ kind: 'missed' });
  };
  document.addEventListener('visibilitychange', () => { document.hidden ? hide() : show(); });
  for (const leaving of ['focusout', 'selectionchange', 'pointerup', 'pointercancel']) document.addEventListener(leaving, refreshLeftParts);
  prepareAnnouncer();
  // The browser may keep the page in its back/forward cache.
  window.addEventListener('pagehide', hide);
  window.addEventListener('pageshow', ({ persisted }) => { if (persisted) show(); });
  listen();
}

/** Prepares new parts of the page: copy buttons, units, times and the age of the newest block. */
function decorate() {
  for (const button of document.querySelectorAll('.copy')) button.hidden = !navigator.clipboard;
  setUnit(document.getElementById('unit')?.value ?? '18');
  refreshTimes();
  refreshStale();
}

document.addEventListener('DOMContentLoaded', () => {
  document.querySelector('.tools')?.removeAttribute('hidden');
  document.getElementById('theme')?.addEventListener('click', switchTheme);
  const unit = document.getElementById('unit');
  if (unit) {
    unit.value = store.get('unit') ?? '18';
    unit.addEventListener('change', () => { store.set('unit', unit.value); setUnit(unit.value); });
  }
  document.addEventListener('pointerover', highlightEqual);
  document.addEventListener('focusin', highlightEqual);
  document.addEventListener('click', copy);
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(input|textarea|select)$/i.test(document.activeElement?.tagName ?? '')) {
      event.preventDefault();
      document.getElementById('q')?.focus();
    }
  });
  setInterval(refreshTimes, 10_000);
  decorate();
  live();
});

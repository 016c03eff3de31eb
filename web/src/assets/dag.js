// The consensus DAG or the log, live: fetches the picture again as the server draws it, and describes the item under the pointer or the
// focus.
'use strict';

(() => {
  const dag = document.getElementById('dag');
  const scrub = document.getElementById('scrub');
  if (!dag || !scrub) return;
  const byId = (id) => document.getElementById(id);
  const slider = byId('slider');
  const number = byId('round');
  /** Texts from the page. */
  const texts = JSON.parse(dag.dataset.texts ?? '{}');
  const text = (name, value) => (texts[name] ?? '').replace('{}', () => value);

  /** Range of the picture, and range of all stored rounds. */
  const range = () => ({
    first: Number(dag.dataset.first), last: Number(dag.dataset.last),
    oldest: Number(dag.dataset.oldest), newest: Number(dag.dataset.newest),
  });
  const follows = () => dag.dataset.follows === 'yes';
  const middle = () => Math.max(range().last + 1 - 12, range().first);

  // ---- fetching: one request at a time, the newest one wins. Returns true if the server responded

  const TIMEOUT_MS = 30_000;
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let busy = false;
  let queued = null;

  async function show(url, how) {
    if (busy) { queued = [url, how]; return true; }
    busy = true;
    let hasResponse = false;
    try {
      const response = await fetch(url, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (response.ok) {
        replaceParts(new DOMParser().parseFromString(await response.text(), 'text/html'), how);
        if (how === 'push') history.pushState(null, '', url);
        if (how === 'replace') history.replaceState(null, '', url);
        hasResponse = true;
      }
    } catch { /* update() retries */ }
    // The browser loads the URL itself and shows the error.
    if (how === 'push' && !hasResponse) location.assign(url);
    if (how !== 'tick') await pause(120);
    busy = false;
    if (queued) { const next = queued; queued = null; show(...next); }
    return hasResponse;
  }

  /** Replaces parts by those of the fetched page. The focus stays on the same item. */
  function replaceParts(page, how) {
    const fresh = page.getElementById('dag');
    if (!fresh) return;
    const focused = dag.contains(document.activeElement) ? document.activeElement.id : null;
    for (const name of ['first', 'last', 'oldest', 'newest', 'follows']) {
      if (fresh.dataset[name] === undefined) delete dag.dataset[name]; else dag.dataset[name] = fresh.dataset[name];
    }
    const parts = ['summary', 'picture', 'paging', 'table', 'blocks'];
    // A tick does not change the selection, and a screen reader would read the panel again.
    if (how !== 'tick') parts.push('fact');
    for (const id of parts) {
      const next = page.getElementById(id);
      if (next && byId(id)) byId(id).replaceChildren(...next.childNodes);
    }
    if (focused && document.activeElement?.id !== focused) (byId(focused) ?? byId('picture'))?.focus({ preventScroll: true });
    if (typeof decorate === 'function') decorate();
    loaded = null;
    updatePosition();
    if (how !== 'tick') scrollToSelection();
    if (highlighted) highlight(byId(highlighted));
  }

  /** Scrolls a wide picture: to the selected item, else to the right if it follows, else to the middle. */
  function scrollToSelection() {
    const picture = byId('picture');
    const chosen = picture.querySelector('.chosen')?.getBoundingClientRect();
    const left = picture.getBoundingClientRect().x + picture.clientWidth / 2;
    if (chosen) picture.scrollLeft += chosen.x - left;
    else picture.scrollLeft = follows() ? picture.scrollWidth : (picture.scrollWidth - picture.clientWidth) / 2;
  }

  /** Updates the slider, the number field and the note to the position of the picture. */
  function updatePosition() {
    const { oldest, newest } = range();
    for (const input of [slider, number]) {
      input.min = oldest;
      input.max = newest;
      if (document.activeElement !== input) input.value = follows() ? newest : middle();
    }
    byId('newest').textContent = newest.toLocaleString(document.documentElement.lang);
    byId('follows').hidden = !follows();
  }

  // ---- item under the pointer or the focus

  let highlighted = null;
  let loaded = null;

  function clearHighlight() {
    highlighted = null;
    for (const old of dag.querySelectorAll('.near, .glow')) old.classList.remove('near', 'glow');
    byId('near').textContent = '';
  }

  function highlight(item) {
    clearHighlight();
    if (!item) return;
    highlighted = item.id;
    for (const parent of (item.dataset.parents ?? '').split(' ')) byId(`v${parent}`)?.classList.add('near');
    dag.querySelector(`.line[data-of="${item.id.slice(1)}"]`)?.classList.add('glow');
    showDetails(item);
  }

  /** Adds details of the item, from the API. */
  async function showDetails(item) {
    const id = item.id;
    const title = item.querySelector('title')?.textContent ?? '';
    byId('near').textContent = title;
    const { first, last } = range();
    try {
      loaded ??= fetch(`/api/v1/dag?from=${first}&to=${last}`).then((response) => (response.ok ? response.json() : null));
      const response = await loaded;
      if (response && highlighted === id) byId('near').textContent = [title, ...details(response, item)].join(' · ');
    } catch { loaded = null; }
  }

  function details(response, item) {
    const vertices = [...response.rounds.flatMap((round) => round.vertices), ...(response.cars ?? [])];
    if (item.dataset.rank !== undefined) {
      const slots = response.rounds.find((round) => String(round.round) === item.dataset.round)?.slots ?? [];
      const slot = slots.find((slot) => Number(slot.rank) === Number(item.dataset.rank));
      const vertex = vertices.find((vertex) => vertex.digest === slot?.digest);
      const from = Number(vertex?.proposedMs ?? vertex?.acceptedMs);
      const name = vertex?.proposedMs ? 'decidedAfterSigned' : 'decidedAfterCame';
      return from && slot.decidedMs ? [text(name, Number(slot.decidedMs) - from)] : [];
    }
    const vertex = vertices.find((vertex) => item.id === `v${vertex.digest.slice(2, 10)}`);
    if (!vertex) return [];
    const names = vertex.parents.map((digest) => vertices.find((parent) => parent.digest === digest));
    const found = names.filter(Boolean).map((parent) => `v${Number(parent.author)}@${Number(parent.round)}`);
    const facts = [text('digest', `${vertex.digest.slice(0, 18)}…`)];
    if (found.length > 0) facts.push(text('parents', found.join(', ')));
    if (vertex.acceptedMs) facts.push(text('accepted', new Date(Number(vertex.acceptedMs)).toISOString().slice(11, 23)));
    if (vertex.acceptedMs && vertex.proposedMs) facts.push(text('acceptedAfter', Number(vertex.acceptedMs) - Number(vertex.proposedMs)));
    return facts;
  }

  const itemAt = (event) => event.target.closest?.('#picture a[data-round]');
  document.addEventListener('pointerover', (event) => { const item = itemAt(event); if (item) highlight(item); });
  document.addEventListener('focusin', (event) => { const item = itemAt(event); if (item) highlight(item); });
  document.addEventListener('pointerout', (event) => { if (itemAt(event) && document.activeElement?.id !== highlighted) clearHighlight(); });

  // ---- navigation

  dag.addEventListener('click', (event) => {
    const link = event.target.closest?.('a');
    const href = link?.getAttribute('href') ?? '';
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0 || !/^\/dag([?#]|$)/.test(href)) return;
    event.preventDefault();
    show(href.split('#')[0], 'push');
  });
  addEventListener('popstate', () => show(location.pathname + location.search, 'back'));

  const goTo = (round) => {
    const { oldest, newest } = range();
    const to = Math.min(Math.max(round, oldest), newest);
    show(to >= newest ? '/dag' : `/dag?round=${to}`, 'replace');
  };
  slider.hidden = false;
  slider.addEventListener('input', () => { number.value = slider.value; goTo(Number(slider.value)); });
  scrub.addEventListener('submit', (event) => {
    if (!number.checkValidity()) return;
    event.preventDefault();
    goTo(Number(number.value));
  });

  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  /** Nearest item in a direction. The distance across the direction counts three times. */
  function neighbour(from, [right, down]) {
    const centre = (item) => {
      const box = item.querySelector('circle, rect, path')?.getBoundingClientRect() ?? item.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    const [x, y] = centre(from);
    let best = null;
    let least = Infinity;
    for (const item of dag.querySelectorAll(from.matches('.vertex') ? '#picture a.vertex' : '#picture a[data-rank]')) {
      const [dx, dy] = [centre(item)[0] - x, centre(item)[1] - y];
      const along = right * dx + down * dy;
      const far = along + 3 * Math.abs(right ? dy : dx);
      if (along > 2 && far < least) { best = item; least = far; }
    }
    return best;
  }

  document.addEventListener('keydown', (event) => {
    const step = STEPS[event.key];
    const here = document.activeElement;
    if (!step || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || /^(input|textarea|select|summary)$/i.test(here?.tagName ?? '')) return;
    const picture = byId('picture');
    if (here?.matches?.('#picture a[data-round]')) {
      event.preventDefault();
      const next = neighbour(here, step);
      if (next) next.focus(); else if (step[0]) stepBy(step[0]);
    } else if (step[0] && !(here === picture && picture.scrollWidth > picture.clientWidth)) {
      event.preventDefault();
      stepBy(step[0]);
    }
  });

  /** Moves by one column. After the newest column the picture follows the network. */
  function stepBy(columns) {
    const { last, newest, oldest } = range();
    if (columns > 0 && last + 1 >= newest) show('/dag', 'replace');
    else show(`/dag?round=${Math.max(middle() + columns, oldest)}`, 'replace');
  }

  // ---- updates: at most one a second; ticks in between cause one more update. None while the page is hidden, and less and
  // less often while the server is busy or offline

  // Longer for readers who asked for less motion.
  const INTERVAL_MS = matchMedia('(prefers-reduced-motion: reduce)').matches ? 5_000 : 1_000;
  let isResting = false;
  let isPending = false;
  let backoff = 0;

  async function update() {
    if (isResting) { isPending = true; return; }
    isResting = true;
    isPending = busy;
    if (!busy && follows() && !document.hidden) {
      const hasResponse = await show('/dag', 'tick');
      backoff = hasResponse ? 0 : Math.min(2 * (backoff || INTERVAL_MS), TIMEOUT_MS);
      isPending ||= !hasResponse;
    }
    await pause(Math.max(INTERVAL_MS, backoff));
    isResting = false;
    if (isPending) update();
  }

  document.addEventListener('tick', ({ detail }) => {
    if (!['dag', 'missed', 'reverted'].includes(detail.kind) || document.hidden) return;
    if (follows()) {
      update();
    } else if (detail.round > range().newest) {
      dag.dataset.newest = detail.round;
      updatePosition();
    }
  });
  updatePosition();
  scrollToSelection();
})();

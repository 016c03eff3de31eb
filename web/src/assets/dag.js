// The consensus DAG, live: fetches the picture again as the server draws it, and describes the item under the pointer or the
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
  const words = JSON.parse(dag.dataset.words ?? '{}');
  const say = (name, value) => (words[name] ?? '').replace('{}', () => value);

  /** Range of the picture, and range of all stored rounds. */
  const where = () => ({
    first: Number(dag.dataset.first), last: Number(dag.dataset.last),
    oldest: Number(dag.dataset.oldest), newest: Number(dag.dataset.newest),
  });
  const follows = () => dag.dataset.follows === 'yes';
  const middle = () => Math.max(where().last + 1 - 12, where().first);

  // ---- fetching: one request at a time, the newest one wins. Returns true if the server responded

  const LONGEST = 30_000;
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let busy = false;
  let wish = null;

  async function show(url, how) {
    if (busy) { wish = [url, how]; return true; }
    busy = true;
    let answered = false;
    try {
      const answer = await fetch(url, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(LONGEST) });
      if (answer.ok) {
        take(new DOMParser().parseFromString(await answer.text(), 'text/html'), how);
        if (how === 'push') history.pushState(null, '', url);
        if (how === 'replace') history.replaceState(null, '', url);
        answered = true;
      }
    } catch { /* grow() asks again */ }
    // The browser loads the URL itself and shows the error.
    if (how === 'push' && !answered) location.assign(url);
    if (how !== 'tick') await pause(120);
    busy = false;
    if (wish) { const next = wish; wish = null; show(...next); }
    return answered;
  }

  /** Replaces parts by those of the fetched page. The focus stays on the same item. */
  function take(page, how) {
    const fresh = page.getElementById('dag');
    if (!fresh) return;
    const focused = dag.contains(document.activeElement) ? document.activeElement.id : null;
    for (const name of ['first', 'last', 'oldest', 'newest', 'follows']) {
      if (fresh.dataset[name] === undefined) delete dag.dataset[name]; else dag.dataset[name] = fresh.dataset[name];
    }
    const parts = ['picture', 'paging', 'table', 'blocks'];
    // A tick does not change the selection, and a screen reader would read the panel again.
    if (how !== 'tick') parts.push('fact');
    for (const id of parts) {
      const next = page.getElementById(id);
      if (next && byId(id)) byId(id).replaceChildren(...next.childNodes);
    }
    if (focused && document.activeElement?.id !== focused) (byId(focused) ?? byId('picture'))?.focus({ preventScroll: true });
    if (typeof dress === 'function') dress();
    told = null;
    stand();
    if (how !== 'tick') settle();
    if (lit) light(byId(lit));
  }

  /** Scrolls a wide picture: to the selected item, else to the right if it follows, else to the middle. */
  function settle() {
    const picture = byId('picture');
    const chosen = picture.querySelector('.chosen')?.getBoundingClientRect();
    const left = picture.getBoundingClientRect().x + picture.clientWidth / 2;
    if (chosen) picture.scrollLeft += chosen.x - left;
    else picture.scrollLeft = follows() ? picture.scrollWidth : (picture.scrollWidth - picture.clientWidth) / 2;
  }

  /** Updates the slider, the number field and the note to the position of the picture. */
  function stand() {
    const { oldest, newest } = where();
    for (const input of [slider, number]) {
      input.min = oldest;
      input.max = newest;
      if (document.activeElement !== input) input.value = follows() ? newest : middle();
    }
    byId('newest').textContent = newest.toLocaleString(document.documentElement.lang);
    byId('follows').hidden = !follows();
  }

  // ---- item under the pointer or the focus

  let lit = null;
  let told = null;

  function darken() {
    lit = null;
    for (const old of dag.querySelectorAll('.near, .glow')) old.classList.remove('near', 'glow');
    byId('near').textContent = '';
  }

  function light(thing) {
    darken();
    if (!thing) return;
    lit = thing.id;
    for (const parent of (thing.dataset.parents ?? '').split(' ')) byId(`v${parent}`)?.classList.add('near');
    dag.querySelector(`.line[data-of="${thing.id.slice(1)}"]`)?.classList.add('glow');
    tell(thing);
  }

  /** Adds details of the item, from the API. */
  async function tell(thing) {
    const id = thing.id;
    const title = thing.querySelector('title')?.textContent ?? '';
    byId('near').textContent = title;
    const { first, last } = where();
    try {
      told ??= fetch(`/api/v1/dag?from=${first}&to=${last}`).then((answer) => (answer.ok ? answer.json() : null));
      const answer = await told;
      if (answer && lit === id) byId('near').textContent = [title, ...details(answer, thing)].join(' · ');
    } catch { told = null; }
  }

  function details(answer, thing) {
    const vertices = [...answer.rounds.flatMap((round) => round.vertices), ...(answer.cars ?? [])];
    if (thing.dataset.rank !== undefined) {
      const slots = answer.rounds.find((round) => String(round.round) === thing.dataset.round)?.slots ?? [];
      const slot = slots.find((slot) => Number(slot.rank) === Number(thing.dataset.rank));
      const vertex = vertices.find((vertex) => vertex.digest === slot?.digest);
      const from = Number(vertex?.proposedMs ?? vertex?.acceptedMs);
      const name = vertex?.proposedMs ? 'decidedAfterSigned' : 'decidedAfterCame';
      return from && slot.decidedMs ? [say(name, Number(slot.decidedMs) - from)] : [];
    }
    const vertex = vertices.find((vertex) => thing.id === `v${vertex.digest.slice(2, 10)}`);
    if (!vertex) return [];
    const names = vertex.parents.map((digest) => vertices.find((parent) => parent.digest === digest));
    const found = names.filter(Boolean).map((parent) => `v${Number(parent.author)}@${Number(parent.round)}`);
    const facts = [say('digest', `${vertex.digest.slice(0, 18)}…`)];
    if (found.length > 0) facts.push(say('parents', found.join(', ')));
    if (vertex.acceptedMs) facts.push(say('accepted', new Date(Number(vertex.acceptedMs)).toISOString().slice(11, 23)));
    if (vertex.acceptedMs && vertex.proposedMs) facts.push(say('acceptedAfter', Number(vertex.acceptedMs) - Number(vertex.proposedMs)));
    return facts;
  }

  const thingAt = (event) => event.target.closest?.('#picture a[data-round]');
  document.addEventListener('pointerover', (event) => { const thing = thingAt(event); if (thing) light(thing); });
  document.addEventListener('focusin', (event) => { const thing = thingAt(event); if (thing) light(thing); });
  document.addEventListener('pointerout', (event) => { if (thingAt(event) && document.activeElement?.id !== lit) darken(); });

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
    const { oldest, newest } = where();
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
    const centre = (thing) => {
      const box = thing.querySelector('circle, rect, path')?.getBoundingClientRect() ?? thing.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    const [x, y] = centre(from);
    let best = null;
    let least = Infinity;
    for (const thing of dag.querySelectorAll(from.matches('.vertex') ? '#picture a.vertex' : '#picture a[data-rank]')) {
      const [dx, dy] = [centre(thing)[0] - x, centre(thing)[1] - y];
      const along = right * dx + down * dy;
      const far = along + 3 * Math.abs(right ? dy : dx);
      if (along > 2 && far < least) { best = thing; least = far; }
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
    const { last, newest, oldest } = where();
    if (columns > 0 && last + 1 >= newest) show('/dag', 'replace');
    else show(`/dag?round=${Math.max(middle() + columns, oldest)}`, 'replace');
  }

  // ---- updates: at most one a second; ticks in between cause one more update. None while the page is hidden, and less and
  // less often while the server is busy or offline

  // Longer for readers who asked for less motion.
  const SECOND = matchMedia('(prefers-reduced-motion: reduce)').matches ? 5_000 : 1_000;
  let rests = false;
  let due = false;
  let backoff = 0;

  async function grow() {
    if (rests) { due = true; return; }
    rests = true;
    due = busy;
    if (!busy && follows() && !document.hidden) {
      const answered = await show('/dag', 'tick');
      backoff = answered ? 0 : Math.min(2 * (backoff || SECOND), LONGEST);
      due ||= !answered;
    }
    await pause(Math.max(SECOND, backoff));
    rests = false;
    if (due) grow();
  }

  document.addEventListener('tick', ({ detail }) => {
    if (!['dag', 'missed', 'reverted'].includes(detail.kind) || document.hidden) return;
    if (follows()) {
      grow();
    } else if (detail.round > where().newest) {
      dag.dataset.newest = detail.round;
      stand();
    }
  });
  stand();
  settle();
})();

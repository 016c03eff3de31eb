// Seeded choices: mulberry32, which is enough for choices and repeatable.

/** A function that draws a whole number from 0 up to, and without, `below`. */
export function seeded(seed) {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** The same elements in an order that is drawn. */
export function shuffled(random, elements) {
  const left = [...elements];
  return Array.from(elements, () => left.splice(random(left.length), 1)[0]);
}

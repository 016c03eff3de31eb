// Seeded choices by mulberry32, which is sufficient for choices and repeatable.

/** Returns a function that draws an integer from 0 to `below` - 1. */
export function seeded(seed) {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** Returns the elements in a random order. */
export function shuffled(random, elements) {
  const left = [...elements];
  return Array.from(elements, () => left.splice(random(left.length), 1)[0]);
}

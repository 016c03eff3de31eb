// False responses of a node: the true one with one changed byte. Also runs in the page.

/**
 * Yields this response with one bit changed in each byte of each hex text, with a byte more or less, and without each
 * of its parts.
 */
export function* tampered(answer) {
  yield* inside(answer, (changed) => changed, '');
}

function* inside(value, put, path) {
  if (typeof value === 'string' && /^0x/.test(value)) {
    for (let at = value.length - 1; at >= 2; at -= 2) {
      const digit = (parseInt(value[at], 16) ^ 1).toString(16);
      yield { path: `${path}[${at}]`, lie: put(value.slice(0, at) + digit + value.slice(at + 1)) };
    }
    // For short numbers this would be only another spelling.
    if (value.length < 10) return;
    yield { path: `${path} cut`, lie: put(value.slice(0, -2)) };
    yield { path: `${path} longer`, lie: put(`${value}00`) };
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      yield { path: `${path}.${index} missing`, lie: put(value.toSpliced(index, 1)) };
      yield* inside(item, (changed) => put(value.with(index, changed)), `${path}.${index}`);
    }
  } else if (value !== null && typeof value === 'object') {
    for (const [name, item] of Object.entries(value)) {
      const { [name]: _, ...rest } = value;
      yield { path: `${path}.${name} missing`, lie: put(rest) };
      yield* inside(item, (changed) => put({ ...value, [name]: changed }), `${path}.${name}`);
    }
  }
}

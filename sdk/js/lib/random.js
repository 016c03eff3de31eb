// Random requests from the node's own document: with parameters that the schemas allow, with slightly wrong ones, and
// with hostile ones. A seed makes the choices repeatable.

/** mulberry32: a small, repeatable generator. */
export class Random {
  constructor(seed) {
    this.state = seed | 0;
  }

  below(bound) {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % bound;
  }

  chance(percent) {
    return this.below(100) < percent;
  }

  of(choices) {
    return choices[this.below(choices.length)];
  }

  hex(digits) {
    return Array.from({ length: digits }, () => this.below(16).toString(16)).join('');
  }
}

const QUANTITIES = ['0x0', '0x1', '0x2', '0x3', '0x10', '0xff', '0x5208', '0xffffffff', '0x7fffffffffffffff', '0xffffffffffffffff'];
const HUGE = ['0x10000000000000000', `0x${'f'.repeat(32)}`, `0x${'f'.repeat(64)}`, `0x1${'0'.repeat(64)}`, `0x${'f'.repeat(1000)}`];
const TEXTS = ['', '0x', 'x', 'latest', 'LATEST', 'null', '0', '-1', '٣', '\u0000', '\ud800', '𝕏'.repeat(50), '"', '\\', '%s%n', '__proto__', '../../etc/passwd', 'a'.repeat(5000)];
const NUMBERS = [0, -0, -1, 1.5, 1e21, 1e308, -1e308, 5e-324, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 64, 2 ** 128];

/**
 * Requests for the methods of one document. `corpus` has data of the chain: `addresses`, `hashes`, `calls`, `bytes`,
 * `codes`, `slots`, `filters`.
 */
export class Requests {
  constructor(document, corpus, random) {
    Object.assign(this, { document, corpus, random, made: 0 });
  }

  /** Returns a request without id, and its kind: 'valid', 'near' or 'hostile'. */
  next() {
    const { random } = this;
    // In turn, so that each method is requested equally often.
    const method = this.document.methods[this.made % this.document.methods.length];
    this.made += 1;
    const kind = random.of(['valid', 'valid', 'near', 'near', 'hostile']);
    const params = this.parameters(method);
    if (kind === 'near') return { kind, method, request: { method: method.name, params: this.off(params) } };
    if (kind === 'hostile') return { kind, method, request: this.hostile(method, params) };
    return { kind, method, request: { method: method.name, params } };
  }

  parameters({ name: method, params }) {
    const { random } = this;
    // The second parameter depends on the first, which the schema expresses only in its description.
    if (method === 'eth_subscribe') {
      return random.of([['newHeads'], ['logs'], ['logs', this.value(params[1].schema.anyOf[0])], ['newPendingTransactions', true], ['syncing'], ['corniche_dag']]);
    }
    const optional = params.filter(({ required }) => !required).length;
    const given = params.slice(0, params.length - random.below(optional + 1));
    return given.map(({ name, required, schema }) => (required || random.chance(90) ? this.value(schema, name) : null));
  }

  /** Returns a value that a schema allows. `name` is the parameter's name, which is more specific than its type. */
  value(schema, name = '', depth = 0, of = undefined) {
    const { random } = this;
    if (schema.$ref) {
      const type = schema.$ref.split('/').at(-1);
      return this.meaningful(type, name) ?? this.value(this.document.components.schemas[type], name, depth + 1, type);
    }
    if (schema.anyOf) return this.value(random.of(schema.anyOf), name, depth + 1);
    if (schema.enum) return random.of(schema.enum);
    if (schema.allOf) return Object.assign({}, ...schema.allOf.map((part) => this.value(part, name, depth + 1)));
    switch (schema.type) {
      case 'null':
        return null;
      case 'boolean':
        return random.chance(50);
      case 'number':
        return name === 'percentiles' ? random.below(101) : random.below(300);
      case 'array': {
        const items = Array.from({ length: random.below(depth > 6 ? 1 : 4) }, () => this.value(schema.items, name, depth + 1));
        return name === 'percentiles' ? items.sort((a, b) => a - b) : items;
      }
      case 'string':
        return schema.pattern ? `0x${random.hex(Number(schema.pattern.match(/\{(\d+)\}/)?.[1] ?? 4))}` : random.of(TEXTS);
      default: {
        const made = this.object(schema, depth + 1, of);
        // Either a block or a range: the schema expresses this with "not".
        if (of === 'LogFilter' && made.blockHash) delete made.fromBlock && delete made.toBlock;
        return made;
      }
    }
  }

  object({ properties = {}, required = [], additionalProperties }, depth, type) {
    const { random, corpus } = this;
    const chosen = Object.entries(properties).filter(([name]) => required.includes(name) || random.chance(35));
    const members = chosen.map(([name, schema]) => [name, this.value(schema, name, depth)]);
    for (let more = additionalProperties ? random.below(3) : 0; more > 0; more -= 1) {
      const key = random.of(type === 'Slots' ? corpus.slots : corpus.addresses);
      members.push([key, this.value(additionalProperties, key, depth)]);
    }
    return Object.fromEntries(members);
  }

  /** Returns an existing value of a type; undefined for composed types. */
  meaningful(type, name) {
    const { random, corpus } = this;
    switch (type) {
      case 'Address':
        return random.chance(90) ? random.of(corpus.addresses) : `0x${random.hex(40)}`;
      case 'Hash':
        return random.chance(80) ? random.of(corpus.hashes) : `0x${random.hex(64)}`;
      case 'Bytes32':
        return random.chance(60) ? random.of(corpus.slots) : `0x${random.hex(64)}`;
      case 'Slot':
        return random.chance(60) ? random.of(corpus.slots) : `0x${random.hex(1 + random.below(64))}`;
      case 'Bytes':
        if (name === 'code') return this.spoilt(random.of(corpus.codes));
        return random.chance(80) ? this.spoilt(random.of(corpus.bytes)) : `0x${random.hex(2 * random.below(100))}`;
      case 'Quantity':
        if (['filter', 'subscription'].includes(name)) return random.of([...corpus.filters, '0x1']);
        // Slow requests are limited, because waiting tests nothing.
        if (name === 'type') return random.of(['0x0', '0x1', '0x2']);
        if (name === 'last') return random.of(['0x1', '0x10', '0x20']);
        return random.chance(70) ? random.of(QUANTITIES) : `0x${random.of('123456789abcdef')}${random.hex(random.below(12))}`;
      case 'Count':
        return name === 'timeout' ? 1 + random.below(20) : random.of([0, 1, 5, '0x0', '0x1', '0x20', '0x400', '0xffff']);
      case 'BlockId':
      case 'BlockName':
        return random.chance(40) ? random.of(['latest', 'latest', 'pending', 'earliest', '0x1']) : undefined;
      case 'Call':
        // A consistent call is unlikely at random.
        return random.chance(50) ? { ...random.of(corpus.calls) } : undefined;
      default:
        return undefined;
    }
  }

  /** Returns the value unchanged in most cases, else with a changed byte, truncated, or extended. */
  spoilt(hex) {
    const { random } = this;
    if (hex.length < 6 || random.chance(60)) return hex;
    const at = 2 + 2 * random.below((hex.length - 2) / 2);
    return random.of([`${hex.slice(0, at)}${random.hex(2)}${hex.slice(at + 2)}`, hex.slice(0, at), `${hex}${random.hex(2)}`]);
  }

  /** Changes one part of the parameters so that it is wrong. */
  off(params) {
    const { random } = this;
    const whole = structuredClone(params);
    if (random.chance(10)) return [...whole, random.of([null, 1, 'latest', {}])];
    if (whole.length > 0 && random.chance(10)) return whole.slice(0, -1);
    const holder = [whole];
    let place = [holder, 0];
    // Descends to the changed part.
    for (;;) {
      const here = place[0][place[1]];
      const keys = here !== null && typeof here === 'object' ? Object.keys(here) : [];
      if (keys.length === 0 || (place[0] !== holder && random.chance(25))) break;
      place = [here, random.of(keys)];
    }
    if (place[0] === holder) return whole;
    place[0][place[1]] = this.changed(place[0][place[1]]);
    return holder[0];
  }

  changed(value) {
    const { random } = this;
    if (typeof value === 'string') {
      const at = random.below(value.length + 1);
      return random.of([
        value.toUpperCase(),
        value.slice(0, -1),
        value.slice(2),
        `${value}0`,
        `0x0${value.slice(2)}`,
        ` ${value}`,
        `${value.slice(0, at)}g${value.slice(at)}`,
        Number(value.slice(0, 15)),
        [value],
        null,
        ...HUGE,
      ]);
    }
    if (typeof value === 'number') return random.of([-value, value + 0.5, String(value), `0x${value.toString(16)}`, ...NUMBERS]);
    if (value === null || typeof value === 'boolean') return random.of([0, 'true', {}, []]);
    if (Array.isArray(value)) return random.of([[...value, ...value], [value], {}, null, [...value, null]]);
    const keys = Object.keys(value);
    const without = { ...value };
    if (keys.length > 0) delete without[random.of(keys)];
    return random.of([without, { ...value, more: 1 }, { ...value, ['__proto__']: [] }, Object.entries(value), null]);
  }

  /** Returns a request, or its text, that no library would send. */
  hostile(method, params) {
    const { random } = this;
    const awful = () => random.of([...TEXTS, ...NUMBERS, ...HUGE, null, true, [], {}, nested(200), Array(3000).fill('0x1'), { '': { '': {} } }]);
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, method: method.name, params });
    const at = random.below(text.length);
    return random.of([
      () => ({ method: method.name, params: params.map((param) => (random.chance(60) ? awful() : param)) }),
      () => ({ method: method.name, params: Array.from({ length: random.below(6) }, awful) }),
      () => ({ method: method.name, params: awful() }),
      () => ({ method: random.of([method.name.toUpperCase(), `${method.name} `, method.name.replace('_', '.'), awful()]), params }),
      // The rest is text that JSON.stringify would never produce.
      () => `${text.slice(0, at)}${random.of(['\u0000', '}', ']', '"', ',', '\\', '{', '1e999', '\u00ff'])}${text.slice(at)}`,
      () => text.slice(0, at),
      () => text.replace('"params":', '"params":[],"params":'),
      () => text.replace('"id":1', `"id":${random.of(['1e999', '-1', '1.5', 'null', '"\\ud800"', '{}', '[[]]', '9'.repeat(500)])}`),
      () => `{"jsonrpc":"2.0","id":1,"method":"${method.name}","params":[${random.of(['1e999', '-1e-999', '9'.repeat(500), '0.1e+5', nestedText(5000)])}]}`,
      () => `[${text},${random.of(['1', '[]', 'null', text, '{}', nestedText(300)])}]`,
    ])();
  }
}

function nested(depth) {
  let value = 0;
  for (let level = 0; level < depth; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

const nestedText = (depth) => '['.repeat(depth) + ']'.repeat(depth);

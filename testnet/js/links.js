// The connections between nodes. Each direction of each pair has a relay, so that a test can cut them.

import { createServer, connect } from 'node:net';
import { Transform } from 'node:stream';

export class Links {
  constructor() {
    this.relays = [];
  }

  /** Opens a port on this machine that connects `from` with `to`, which listens on `port`. */
  async open(from, to, port) {
    const relay = new Relay(from, to, port);
    this.relays.push(relay);
    return relay.listen();
  }

  /**
   * Isolates `some` from all other nodes, in both directions. Connections end, or, `silently`, stay open without data:
   * messages sent meanwhile arrive when the link is restored, as with TCP over a line that comes back.
   */
  part(some, { silently = false } = {}) {
    for (const relay of this.relays) {
      if (some.includes(relay.from) !== some.includes(relay.to)) relay.cut(silently);
    }
  }

  /** Delays all bytes to and from `some` by this time plus at most `jitterMs`; 0 and 0 end the delay. */
  delay(some, ms, jitterMs, random) {
    for (const relay of this.of(some)) relay.lag = ms + jitterMs > 0 ? () => ms + random(jitterMs + 1) : undefined;
  }

  /** Breaks connections of `some`, including data in flight. New connections are possible at once. */
  drop(some) {
    for (const relay of this.of(some)) relay.reset();
  }

  /** Restores all links. */
  heal() {
    for (const relay of this.relays) relay.mend();
  }

  of(some) {
    return this.relays.filter((relay) => some.includes(relay.from) || some.includes(relay.to));
  }

  close() {
    for (const relay of this.relays) relay.close();
  }
}

class Relay {
  constructor(from, to, port) {
    Object.assign(this, { from, to, port, isCut: false, pairs: new Set() });
    this.server = createServer({ pauseOnConnect: true }, (near) => this.join(near));
  }

  listen() {
    return new Promise((settle, fail) => {
      this.server.once('error', fail);
      this.server.listen(0, '127.0.0.1', () => settle(this.server.address().port));
    });
  }

  join(near) {
    if (this.isCut) return near.destroy();
    const far = connect(this.port, '127.0.0.1');
    const pair = [near, far];
    this.pairs.add(pair);
    for (const socket of pair) {
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.pairs.delete(pair);
        for (const other of pair) {
          other.destroy();
          other.stream?.destroy();
        }
      });
    }
    far.once('connect', () => this.carry(pair));
  }

  cut(silently) {
    this.isCut = true;
    if (!silently) return this.reset();
    for (const [near, far] of this.pairs) for (const socket of [near, far]) {
      socket.stream?.unpipe();
      socket.unpipe().pause();
    }
  }

  reset() {
    for (const pair of this.pairs) for (const socket of pair) socket.destroy();
  }

  mend() {
    this.isCut = false;
    for (const pair of this.pairs) this.carry(pair);
  }

  carry([near, far]) {
    for (const [from, to] of [[near, far], [far, near]]) {
      from.unpipe();
      // Each direction keeps one stream for the life of the connection, so that a change of delay reorders nothing.
      from.stream ??= new DelayedStream(() => this.lag?.() ?? 0);
      from.stream.unpipe();
      from.pipe(from.stream).pipe(to);
    }
  }

  close() {
    this.server.close();
    this.cut(false);
  }
}

/** Passes chunks on in order, each after its delay. */
class DelayedStream extends Transform {
  constructor(lag) {
    super();
    Object.assign(this, { lag, waiting: [], last: 0 });
  }

  _transform(piece, _, done) {
    this.last = Math.max(this.last, Date.now() + this.lag());
    this.waiting.push([this.last, piece]);
    this.pass();
    done();
  }

  _flush(done) {
    this.ending = done;
    this.pass();
  }

  pass() {
    while (this.waiting[0]?.[0] <= Date.now()) this.push(this.waiting.shift()[1]);
    clearTimeout(this.timer);
    if (this.waiting.length > 0) this.timer = setTimeout(() => this.pass(), this.waiting[0][0] - Date.now());
    else this.ending?.();
  }

  _destroy(error, done) {
    clearTimeout(this.timer);
    done(error);
  }
}

// The connections between nodes, each way of each pair through a relay of our own, so that a test can cut them.

import { createServer, connect } from 'node:net';

export class Links {
  constructor() {
    this.relays = [];
  }

  /** A port on this machine that leads `from` to `to`, which listens on `port`. */
  async open(from, to, port) {
    const relay = new Relay(from, to, port);
    this.relays.push(relay);
    return relay.listen();
  }

  /**
   * Nobody in `some` reaches anybody else any more, nor the other way round. Connections end, or, `silently`, stay and carry
   * nothing: what is sent then arrives when the link is whole again, as with TCP over a line that comes back.
   */
  part(some, { silently = false } = {}) {
    for (const relay of this.relays) {
      if (some.includes(relay.from) !== some.includes(relay.to)) relay.cut(silently);
    }
  }

  /** All reach each other again. */
  heal() {
    for (const relay of this.relays) relay.mend();
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
        for (const other of pair) other.destroy();
      });
    }
    far.once('connect', () => carry(pair));
  }

  cut(silently) {
    this.isCut = true;
    for (const pair of this.pairs) {
      for (const socket of pair) {
        if (silently) socket.unpipe().pause();
        else socket.destroy();
      }
    }
  }

  mend() {
    this.isCut = false;
    for (const pair of this.pairs) carry(pair);
  }

  close() {
    this.server.close();
    this.cut(false);
  }
}

function carry([near, far]) {
  for (const socket of [near, far]) socket.unpipe();
  near.pipe(far);
  far.pipe(near);
}

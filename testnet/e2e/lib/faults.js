// Faults of the processes, disks and links of a network. A fault hurts, lasts, and is healed. The caller keeps using the nodes that are
// left meanwhile.
//
// Not here: slow disks (they need the device mapper; `slow` starves the whole process instead), and loss and reordering of packets (they
// need `tc netem`, which not every kernel has; TCP turns both into delays and broken connections, and these are here).

import assert from 'node:assert/strict';
import { existsSync, openSync, closeSync, readdirSync, readFileSync, readSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Disk } from './disk.js';
import { shuffled } from './random.js';
import { until } from '../../js/until.js';

const KIB = 1 << 10;
const MIB = 1 << 20;
/** Autobahn: three times `open_slots`, and commits until a quorum has reported (docs/operate.md). */
export const RECOVERY_COMMITS = 30;
/** A frozen process runs this long of each period when it is slow. */
const SLOW = { runsMs: 10, periodMs: 100 };

/** Seconds by which a clock jumps. */
const JUMPS = [-3_600, -30, -3, 3, 30, 3_600];

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * A fault is drawn for a network: `{ name, left, hurt, heal }`. `left` are the nodes that users may go on with; none when nothing may
 * be committed meanwhile. `hurt` returns when the fault has lasted as long as it should; `heal` returns when the network tolerates
 * another fault.
 */
export class Faults {
  constructor(network, random, { lastsMs, frozenMs }) {
    Object.assign(this, { network, random, lastsMs, frozenMs });
    /** Nodes with a disk of their own. */
    this.disks = new Map();
    this.kinds = ['crash', 'freeze', 'slow', 'partition', 'silence', 'delay', 'drops', 'flip', 'tear'];
  }

  /** Gives one validator a disk that can be full; false where nothing can be mounted. */
  async mountDisk(node) {
    node.kill();
    await node.gone();
    const disk = Disk.mount(node);
    if (disk) {
      this.network.disks.push(disk);
      this.disks.set(node, disk);
      this.kinds.push('full', 'nearly-full', 'read-only');
    }
    await node.restart();
    return Boolean(disk);
  }

  /** Allows jumps of a node's system clock; false where libfaketime is not installed. */
  haveClocks() {
    const library = fakeClock();
    if (!library) return false;
    this.fakeClock = library;
    this.kinds.push('clock', 'ahead');
    return true;
  }

  draw() {
    const kind = this.kinds[this.random(this.kinds.length)];
    return this.make(kind);
  }

  make(kind) {
    const [victim] = shuffled(this.random, this.network.validators);
    const left = this.network.validators.filter((node) => node !== victim);
    const fault = this[kind](victim);
    fault.name ??= `${kind} of ${victim.name}`;
    fault.left ??= left;
    fault.heal ??= async () => {};
    return fault;
  }

  between([min, max]) {
    // As many short ones as long ones, by magnitude.
    return Math.round(min * (max / min) ** (this.random(1_001) / 1_000));
  }

  // ---- processes -------------------------------------------------------------------------------------------------------

  /** SIGKILL of one, two or all validators. */
  crash() {
    const { validators } = this.network;
    const victims = shuffled(this.random, validators).slice(0, [1, 1, 1, 2, 4][this.random(5)]);
    return {
      name: `crash of ${names(victims)}`,
      left: victims.length === 1 ? validators.filter((node) => !victims.includes(node)) : [],
      hurt: async () => {
        for (const node of victims) node.kill();
        await Promise.all(victims.map((node) => node.gone()));
      },
      heal: () => Promise.all(victims.map((node) => node.restart())),
    };
  }

  /** SIGSTOP: its connections stay, and nobody answers on them. */
  freeze(node) {
    const ms = this.between(this.frozenMs);
    return { name: `freeze of ${node.name} for ${ms} ms`, hurt: () => this.freezeFor(node, ms), heal: async () => node.thaw() };
  }

  async freezeFor(node, ms) {
    node.freeze();
    await pause(ms);
    node.thaw();
  }

  /** It gets a tenth of the time. */
  slow(node) {
    const rounds = Math.ceil(this.between(this.lastsMs) / SLOW.periodMs);
    const hurt = async () => {
      for (let round = 0; round < rounds; round += 1) {
        await this.freezeFor(node, SLOW.periodMs - SLOW.runsMs);
        await pause(SLOW.runsMs);
      }
    };
    return { hurt, heal: async () => node.thaw() };
  }

  /** Its system clock is ahead by the longest jump. */
  ahead(node) {
    return this.clock(node, Math.max(...JUMPS));
  }

  /** Its system clock jumps, stays wrong, and is set right. The process runs all the while. */
  clock(node, jump = JUMPS[this.random(JUMPS.length)]) {
    const file = `${node.dataDir}.clock`;
    const set = (seconds) => writeFileSync(file, `${seconds < 0 ? '' : '+'}${seconds}`);
    return {
      name: `clock of ${node.name} wrong by ${jump} s`,
      hurt: async () => {
        node.kill();
        await node.gone();
        set(0);
        node.env = { LD_PRELOAD: this.fakeClock, FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
        await node.restart();
        set(jump);
        await pause(this.between(this.lastsMs));
        set(0);
        await pause(this.between(this.lastsMs));
      },
      // Its time would run slowly until the system clock has caught up (docs/operate.md).
      heal: async (user) => {
        node.kill();
        await node.gone();
        node.env = {};
        await node.restart();
        // It takes part again: without it there is no quorum.
        const other = this.network.validators.find((validator) => validator !== node);
        other.freeze();
        await user.transfer(this.network.validators.filter((validator) => validator !== other));
        other.thaw();
      },
    };
  }

  // ---- lines -----------------------------------------------------------------------------------------------------------

  /** Two and two, or one and the others: connections end. */
  partition() {
    const { links, validators } = this.network;
    const apart = shuffled(this.random, validators).slice(0, 1 + this.random(2));
    return {
      name: `partition of ${names(apart)}`,
      left: apart.length === 1 ? validators.filter((node) => !apart.includes(node)) : [],
      hurt: async () => {
        links.part(apart);
        await pause(this.between(this.lastsMs));
      },
      heal: async () => links.heal(),
    };
  }

  /** Its connections stay and carry nothing. */
  silence(node) {
    const { links } = this.network;
    const hurt = async () => {
      links.part([node], { silently: true });
      await pause(this.between(this.lastsMs));
    };
    return { hurt, heal: async () => links.heal() };
  }

  /** Everything to and from it arrives late, by an amount that changes. */
  delay(node) {
    const { links } = this.network;
    const ms = 20 + this.random(200);
    const hurt = async () => {
      links.delay([node], ms, ms, this.random);
      await pause(this.between(this.lastsMs));
    };
    return { name: `delay of ${node.name} by ${ms} to ${2 * ms} ms`, hurt, heal: async () => links.delay([node], 0, 0) };
  }

  /** Its connections break every few hundred milliseconds, with what was on its way. */
  drops(node) {
    const hurt = async () => {
      const end = Date.now() + this.between(this.lastsMs);
      while (Date.now() < end) {
        this.network.links.drop([node]);
        await pause(100 + this.random(300));
      }
    };
    return { hurt };
  }

  // ---- disks -----------------------------------------------------------------------------------------------------------

  /** One bit of one file is another one. */
  flip(node) {
    return this.damage(node, (file, size) => {
      const at = this.random(size);
      const descriptor = openSync(file, 'r+');
      const byte = Buffer.alloc(1);
      readSync(descriptor, byte, 0, 1, at);
      byte[0] ^= 1 << this.random(8);
      writeSync(descriptor, byte, 0, 1, at);
      closeSync(descriptor);
      return `flip at ${at} of ${size}`;
    });
  }

  /** One file ends early. */
  tear(node) {
    return this.damage(node, (file, size) => {
      const length = this.random(size);
      truncateSync(file, length);
      return `torn to ${length} of ${size}`;
    });
  }

  /**
   * Damages any file of a node that crashed. It starts again, or it refuses with a sentence that names what is damaged; then its disk is
   * given up and it fetches everything again.
   */
  damage(node, harm) {
    const fault = { name: `damage of ${node.name}` };
    let hasLostSafetyLog = false;
    fault.hurt = async () => {
      node.kill();
      await node.gone();
      const file = this.fileOf(node.dataDir);
      hasLostSafetyLog = relative(node.dataDir, file).startsWith('safety/');
      fault.name = `${harm(file, statSync(file).size)} in ${relative(node.dataDir, file)} of ${node.name}`;
    };
    fault.heal = async (user) => {
      const logSize = statSync(node.log).size;
      try {
        await node.restart();
      } catch {
        const refusal = readFileSync(node.log).subarray(logSize).toString();
        assert.match(refusal, /^error: /m, `${fault.name}: a refusal says why`);
        assert.ok(refusal.includes(node.dataDir), `${fault.name}: a refusal names the directory: ${refusal}`);
        assert.doesNotMatch(refusal, /panicked/, `${fault.name}: a refusal is no panic`);
        fault.name += ', refused';
        hasLostSafetyLog = true;
        node.loseDisk();
        await node.restart();
      }
      // It signs nothing about what its former self may have signed, so until then it is the one that may be away.
      if (hasLostSafetyLog) {
        // Commits do not count until it has caught up, which it does by following blocks.
        await user.checkAgreement();
        await node.ordering();
        for (let count = 0; count < RECOVERY_COMMITS; count += 1) await user.transfer(fault.left);
      }
    };
    return fault;
  }

  /** Each entry of the directory is as likely as the next, however many files it holds. */
  fileOf(directory) {
    const entries = readdirSync(directory).sort().map((entry) => filesUnder(join(directory, entry)));
    const [files] = shuffled(this.random, entries.filter((some) => some.length > 0));
    return files[this.random(files.length)];
  }

  /** No byte is left at once. */
  full() {
    return this.shortOfSpace('full disk', 4 * KIB);
  }

  /** Below the mark at which a node stops by itself. */
  'nearly-full'() {
    return this.shortOfSpace('nearly full disk', 100 * MIB);
  }

  shortOfSpace(description, free) {
    const [[node, disk]] = this.disks;
    return {
      name: `${description} of ${node.name}`,
      left: this.network.validators.filter((other) => other !== node),
      hurt: async () => {
        disk.shrink(free);
        // It looks at its disk when it writes, so users have to go on meanwhile.
        await until(`${node.name} to stop on a full disk`, () => node.child.exitCode !== null);
        assert.match(readFileSync(node.log, 'utf8').slice(-2_000), /disk is full/);
      },
      heal: async () => {
        disk.heal();
        await node.restart();
      },
    };
  }

  /** It cannot write when it starts. */
  'read-only'() {
    const [[node, disk]] = this.disks;
    return {
      name: `read-only disk of ${node.name}`,
      left: this.network.validators.filter((other) => other !== node),
      hurt: async () => {
        node.kill();
        await node.gone();
        disk.readOnly();
        await assert.rejects(node.restart(), /ended with/);
      },
      heal: async () => {
        disk.heal();
        await node.restart();
      },
    };
  }
}

/** Path of libfaketime, if it is installed. */
function fakeClock() {
  const folders = existsSync('/usr/lib') ? readdirSync('/usr/lib') : [];
  return folders.map((folder) => join('/usr/lib', folder, 'faketime/libfaketimeMT.so.1')).find(existsSync);
}

function names(nodes) {
  return nodes.map((node) => node.name).join(', ');
}

/** Files that are not empty. */
function filesUnder(path) {
  const status = statSync(path);
  if (!status.isDirectory()) return status.size > 0 ? [path] : [];
  return readdirSync(path).sort().flatMap((entry) => filesUnder(join(path, entry)));
}

// A separate file system for one node's data, so that it can be full or read-only. It is in memory (tmpfs) and can be resized
// without writes. Mounting needs root; otherwise no disk is available. A killed test run leaves it mounted under its
// directory in /tmp.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, rmSync, statfsSync } from 'node:fs';

const MIB = 1 << 20;
/** Far above the 1 GiB below which a node refuses transactions; nothing is allocated for it. */
const SIZE = 3072 * MIB;

export class Disk {
  /** Moves the data of a stopped node to a new disk; `undefined` if mounting is not possible. */
  static mount(node) {
    const { dataDir } = node;
    mkdirSync(`${dataDir}.mounted`);
    try {
      run('mount', '-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', `${dataDir}.mounted`);
    } catch {
      rmSync(`${dataDir}.mounted`, { recursive: true });
      return undefined;
    }
    cpSync(dataDir, `${dataDir}.mounted`, { recursive: true });
    renameSync(dataDir, `${dataDir}.before`);
    mkdirSync(dataDir);
    run('mount', '--move', `${dataDir}.mounted`, dataDir);
    return new Disk(dataDir);
  }

  constructor(directory) {
    this.directory = directory;
  }

  /** Shrinks the disk to this number of free bytes. */
  shrink(free) {
    const { blocks, bfree, bsize } = statfsSync(this.directory);
    run('mount', '-o', `remount,size=${(blocks - bfree) * bsize + free}`, this.directory);
  }

  /** Works only if no process has a file open for writing. */
  readOnly() {
    run('mount', '-o', 'remount,ro', this.directory);
  }

  heal() {
    run('mount', '-o', `remount,rw,size=${SIZE}`, this.directory);
  }

  unmount() {
    run('umount', '--lazy', this.directory);
  }
}

function run(program, ...args) {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

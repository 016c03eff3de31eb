// A file system of its own for one node's data, so that it can be full or read-only. It lies in memory (tmpfs) and changes its size
// without writing anything. Mounting needs root; without it there is no such disk. A test run that is killed leaves it mounted under its
// own directory in /tmp.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, rmSync, statfsSync } from 'node:fs';

const MIB = 1 << 20;
/** Far above the 1 GiB below which a node refuses transactions; nothing is allocated for it. */
const SIZE = 3072 * MIB;

export class Disk {
  /** Moves the data of a node that does not run; `undefined` where nothing can be mounted. */
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

  /** Leaves this many bytes free. */
  shrink(free) {
    const { blocks, bfree, bsize } = statfsSync(this.directory);
    run('mount', '-o', `remount,size=${(blocks - bfree) * bsize + free}`, this.directory);
  }

  /** Only while nobody has a file open for writing. */
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

function run(program, ...words) {
  execFileSync(program, words, { stdio: ['ignore', 'ignore', 'pipe'] });
}

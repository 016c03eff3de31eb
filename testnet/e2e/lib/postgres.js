// A separate PostgreSQL server: in a temporary directory, on a Unix socket, deleted after the test.

import { execFile, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../../js/until.js';

const run = promisify(execFile);
const isRoot = process.getuid() === 0;

/** Returns the URL of an empty database. The server ends with the test `t`, and with this process in any case. */
export async function postgres(t) {
  const programs = folder();
  const directory = mkdtempSync(join(tmpdir(), 'corniche-postgres-'));
  let server;
  t.after(async () => {
    if (server) await end(server);
    rmSync(directory, { recursive: true, force: true });
  });
  if (isRoot) {
    // It refuses to run as root, so its user owns the directory.
    chmodSync(directory, 0o755);
    await run('chown', ['postgres:', directory]);
  }
  const data = join(directory, 'data');
  const make = ['--no-sync', '--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C', '-D', data];
  await run('setpriv', unprivileged(join(programs, 'initdb'), make), { cwd: '/' });
  const serve = ['-D', data, '-k', directory, '-c', 'listen_addresses=', '-c', 'fsync=off'];
  server = spawn('setpriv', unprivileged(join(programs, 'postgres'), serve), { cwd: '/', stdio: 'ignore' });
  await until('PostgreSQL to answer', async () => {
    if (server.exitCode !== null) throw new Error(`it ended with ${server.exitCode}`);
    await run(join(programs, 'pg_isready'), ['--quiet', '--host', directory]);
    return true;
  });
  return `postgres://postgres@localhost/postgres?host=${directory}`;
}

function end(server) {
  const ended = new Promise((settle) => server.once('exit', settle));
  // False if it has ended already.
  return server.kill('SIGQUIT') ? ended : undefined;
}

/** Runs as the user postgres if we are root, and ends when we do. */
function unprivileged(program, flags) {
  const user = isRoot ? ['--reuid=postgres', '--regid=postgres', '--init-groups'] : [];
  return [...user, '--pdeathsig', 'QUIT', program, ...flags];
}

/** Finds the server's programs: distributions do not add them to the path. */
function folder() {
  const versions = ['/usr/lib/postgresql', '/usr/local/lib/postgresql'].filter((place) => existsSync(place));
  const kept = versions.flatMap((place) => readdirSync(place).sort().map((version) => join(place, version, 'bin')));
  const places = [...(process.env.PATH ?? '').split(delimiter), ...kept.reverse()];
  const found = places.find((place) => ['initdb', 'postgres', 'pg_isready'].every((program) => existsSync(join(place, program))));
  if (!found) throw new Error('there is no PostgreSQL on this machine: install it, for instance the package postgresql (its server need not run)');
  return found;
}

// Alert rules and dashboards in testnet/monitoring. Requirements: each metric that they name is exported by a validator with staking and
// a remote signer, or by a validator or a sequencer of a network with sequencers; Prometheus accepts every rule and every query; the rules' own tests pass; each alert is documented.

import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { corniche, engines, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';

const run = promisify(execFile);

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const monitoring = join(repository, 'testnet/monitoring');
const read = (...path) => readFileSync(join(...path), 'utf8');

const rules = read(monitoring, 'alerts.yaml');
const alerts = [...rules.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name]) => name);
const dashboards = readdirSync(join(monitoring, 'dashboards')).map((name) => ({ name, ...JSON.parse(read(monitoring, 'dashboards', name)) }));
const queries = dashboards.flatMap(({ name, panels }) =>
  panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ place: `${name}, ${title}`, expr }))),
);

/** A query as Prometheus gets it from Grafana. */
const expanded = (expr) => expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '127.0.0.1:10545').replaceAll('$job', 'corniche');

/** Names in a rule or a query, with the suffixes that samples have. */
const names = (text) => [...text.matchAll(/\bcorniche_[a-z0-9_]+/g)].map(([name]) => name);

/** Names that `url` exports. */
const exported = async (url) => new Set(names((await (await fetch(url)).text()).replaceAll(/^#.*$/gm, '')));

/** Names in rules and queries, each with its places; `multicast` and `sequencer` are those of networks with sequencers. */
function used() {
  const places = { general: [], multicast: [], sequencer: [] };
  for (const { place, expr } of [{ place: 'alerts.yaml', expr: rules }, ...queries]) {
    for (const name of names(expr)) {
      const [, kind] = name.match(/^corniche_(multicast|sequencer)_/) ?? [undefined, 'general'];
      places[kind].push({ place, name });
    }
  }
  return places;
}

/** Requires that `url` exports all of these names. */
async function exports(url, places) {
  const known = await exported(url);
  assert.ok(places.length > 0);
  assert.deepEqual(places.filter(({ name }) => !known.has(name)), []);
}

/** Starts the node again, with its signing keys in a signer. */
async function moveKeysToSigner(t, node) {
  const folder = dirname(node.config);
  const [keys, socket, marks, log] = ['signing', 'signer.sock', 'marks', 'signer.log'].map((name) => join(folder, name));
  node.kill();
  await node.gone();
  mkdirSync(keys, { mode: 0o700 });
  for (const name of ['consensus.key', 'bls.key']) renameSync(join(folder, 'keys', name), join(keys, name));
  writeFileSync(node.config, `signer = "unix:signer.sock"\n${read(node.config)}`);
  const errors = openSync(log, 'a');
  const command = ['signer', '--keys', keys, '--socket', socket, '--marks', marks, '--from-epoch', '0'];
  const signer = spawn(corniche, command, { stdio: ['ignore', errors, errors] });
  closeSync(errors);
  t.after(() => signer.kill('SIGKILL'));
  await until('the signer is up', () => read(log).includes('signer is up'));
  await node.restart();
  await node.ordering();
}

// The names do not depend on the engine, except for those of sequencers.
test('metrics of alerts and dashboards', { timeout: 300_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { validators: 4, engine: engines[0], staking: ['epoch_ms=600000', 'closing_ms=60000'] });
  const [first, second] = network.validators;
  const [payer, { address: to }] = network.accounts;

  await step('a validator exports all of them', async () => {
    await moveKeysToSigner(t, first);
    // A method has its metrics from its first call on.
    await first.client.getBlockNumber();
    // A validator's clock is in the metrics from its first proposal on.
    await first.receipt(await second.wallet(payer).sendTransaction({ to, value: 1n }));
    await until('the clock of a validator', async () => (await (await fetch(first.metrics)).text()).includes('\ncorniche_clock_ahead_ms{'));
    await exports(first.metrics, used().general);
  });
});

test('metrics of sequencers', { timeout: 300_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { validators: 4, engine: 'neobft', sequencers: 2 });
  const { multicast, sequencer } = used();

  await step('a validator exports those of the group', () => exports(network.validators[0].metrics, multicast));

  for (const one of network.sequencers) await step(`${one.name} exports its own`, () => exports(one.metrics, sequencer));

  // The alert NoPackets relies on it.
  await step('an idle validator receives packets', async () => {
    const packets = async () => Number((await (await fetch(network.validators[0].metrics)).text()).match(/^corniche_multicast_packets_total (\d+)$/m)[1]);
    const before = await packets();
    await until('another packet', async () => (await packets()) > before);
  });
});

test('dashboards', async (t) => {
  for (const { name, id, uid, panels, templating } of dashboards) {
    await t.test(name, () => {
      assert.equal(id, null, 'Grafana chooses the id');
      assert.match(uid, /^corniche-[a-z]+$/);
      const ids = panels.map((panel) => panel.id);
      assert.equal(new Set(ids).size, ids.length, 'panel ids are unique');
      assert(templating.list.some((variable) => variable.name === 'datasource' && variable.type === 'datasource'));
      for (const { title, type, datasource, targets, fieldConfig } of panels.filter((panel) => panel.type !== 'row')) {
        const place = `${title} (${type})`;
        assert(targets.length > 0, place);
        for (const source of [datasource, ...targets.map((target) => target.datasource)]) assert.equal(source.uid, '${datasource}', place);
        assert(fieldConfig.defaults.unit, `${place} has a unit`);
      }
    });
  }
  assert.equal(new Set(dashboards.map(({ uid }) => uid)).size, dashboards.length);
});

test('docs/monitor.md describes each alert', () => {
  const page = read(repository, 'docs/monitor.md');
  const described = [...page.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
  assert.deepEqual(described, alerts);
  const links = [...rules.matchAll(/^ +runbook: (.*)$/gm)].map(([, link]) => link);
  assert.deepEqual(links, alerts.map((name) => `docs/monitor.md#${name.toLowerCase()}`));
});

// `make e2e` requires promtool. Without it, a single run of this file skips these checks.
const isInstalled = spawnSync('promtool', ['--version']).status === 0;
const skip = !isInstalled && !process.env.CI && 'promtool is missing, for instance the package prometheus';

test('promtool', { skip }, async (t) => {
  const promtool = (...command) => run('promtool', command, { cwd: monitoring });

  await t.test('accepts the rules', () => promtool('check', 'rules', 'alerts.yaml'));
  await t.test('accepts the configuration', () => promtool('check', 'config', 'prometheus.yml'));
  await t.test('tests the rules', () => promtool('test', 'rules', 'alerts.test.yaml'));

  await t.test('accepts the queries of the dashboards', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'corniche-queries-'));
    t.after(() => rmSync(directory, { recursive: true }));
    // As recording rules, because promtool does not check single queries. JSON is YAML.
    const recorded = queries.map(({ expr }, index) => ({ record: `query_${index}`, expr: expanded(expr) }));
    writeFileSync(join(directory, 'queries.yaml'), JSON.stringify({ groups: [{ name: 'queries', rules: recorded }] }));
    await promtool('check', 'rules', join(directory, 'queries.yaml'));
  });
});

test('the container is built with the pinned compiler', () => {
  const [, pinned] = read(repository, 'rust-toolchain.toml').match(/^channel = "(.+)"$/m);
  const [, used] = read(repository, 'testnet/container/Containerfile').match(/^ARG RUST_VERSION=(.+)$/m);
  assert.equal(used, pinned);
});

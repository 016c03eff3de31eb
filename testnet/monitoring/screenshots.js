// Takes screenshots of Prometheus with the rules of this folder, on a network of four validators, for docs/monitor.md:
// `node screenshots.js`. Needs prometheus and chromium.

import { execFile, spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Network } from '../js/network.js';
import { until } from '../js/until.js';

const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));
const images = join(here, '../../docs/images');
const PORT = 19_090;
const server = `http://127.0.0.1:${PORT}`;

const directory = mkdtempSync(join(tmpdir(), 'corniche-monitoring-'));
const network = await Network.up({ validators: 4, staking: ['epoch_ms=20000', 'closing_ms=5000'] });
const targets = JSON.stringify(network.validators.map(({ metrics }) => new URL(metrics).host));
const config = readFileSync(join(here, 'prometheus.yml'), 'utf8')
  .replace(/targets: .*/, `targets: ${targets}`)
  .replaceAll('15s', '2s');
writeFileSync(join(directory, 'prometheus.yml'), config);
copyFileSync(join(here, 'alerts.yaml'), join(directory, 'alerts.yaml'));
// Relative paths, because the page of alerts shows them.
const options = ['--config.file=prometheus.yml', '--storage.tsdb.path=data', `--web.listen-address=127.0.0.1:${PORT}`];
const prometheus = spawn('prometheus', options, { stdio: 'ignore', cwd: directory });
try {
  const value = async (query) => (await (await fetch(`${server}/api/v1/query?query=${encodeURIComponent(query)}`)).json()).data.result;
  await until('three epochs', async () => Number((await value('min(corniche_epoch)'))[0]?.value[1]) >= 3, { deadlineMs: 400_000 });
  // An alert to look at.
  network.validators[3].kill();
  const alerts = async () => (await (await fetch(`${server}/api/v1/alerts`)).json()).data.alerts;
  const isNodeDown = ({ labels, state }) => labels.alertname === 'NodeDown' && state === 'firing';
  await until('NodeDown to fire', async () => (await alerts()).some(isNodeDown), { deadlineMs: 400_000 });
  const graph = (...queries) =>
    `${server}/classic/graph?${queries.map((query, index) => `g${index}.expr=${encodeURIComponent(query)}&g${index}.tab=0&g${index}.range_input=2m`).join('&')}`;
  const pages = {
    alerts: `${server}/classic/alerts`,
    graph: graph('corniche_epoch_ends_seconds', 'corniche_dkg_unacked_votes_max'),
  };
  for (const [name, page] of Object.entries(pages)) {
    const path = join(images, `monitoring-${name}.png`);
    const flags = ['--headless', '--no-sandbox', '--hide-scrollbars', '--window-size=1280,1000', '--virtual-time-budget=10000'];
    await run('chromium', [...flags, `--screenshot=${path}`, page]);
  }
} finally {
  prometheus.kill();
  await network.down();
  rmSync(directory, { recursive: true, force: true });
}

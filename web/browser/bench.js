// Measures page loads, and whether the home page keeps up with a busy network: `npm run bench`. Parameters: RATE,
// SECONDS. Fails if the home page exceeds its limit. One machine runs four validators, the load, the explorer and the
// browser.

import { execFile } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Network, corniche } from '../../testnet/js/network.js';
import { until } from '../../testnet/js/until.js';
import { fill } from './lib/chain.js';
import { Explorer, close } from './lib/explorer.js';

const rate = Number(process.env.RATE ?? 1_000);
const seconds = Number(process.env.SECONDS ?? 30);
const VISITS = 7;
/** Limit for the first contentful paint of the home page in milliseconds, as the median of all visits. */
const MOST = 300;

const middle = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];
const round = (number) => Math.round(number);

/** Milliseconds until the first contentful paint, in a fresh browser context. */
async function firstPaints(explorer, path) {
  const paints = [];
  for (let visit = 0; visit < VISITS; visit++) {
    const page = await explorer.visit(path);
    const paint = () => page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
    paints.push(await until('something to be painted', paint));
    await close(page);
  }
  return paints;
}

function tell(what, paints) {
  const all = paints.map(round).join(', ');
  console.log(`${what}: first contentful paint ${round(middle(paints))} ms, worst ${round(Math.max(...paints))}; all: ${all}`);
}

const network = await Network.up({ validators: 4, explorer: true });
const ends = [];
try {
  const chain = await fill(network);
  const moved = `/tx/${chain.moved.hash}`;
  await until('the explorer to know certificates', async () => (await (await fetch(network.explorer + moved)).text()).includes('certified'));
  const explorer = await Explorer.open({ after: (end) => ends.push(end) }, network.explorer);
  await firstPaints(explorer, '/');
  for (const path of ['/', '/blocks', `/block/${chain.moved.receipt.blockNumber}`, moved, `/address/${chain.token}`, `/token/${chain.token}`, '/validators', '/dag']) {
    const paints = await firstPaints(explorer, path);
    tell(path.replace(/0x\w+/, '0x…'), paints);
    if (path === '/' && middle(paints) > MOST) {
      console.error(`/: ${round(middle(paints))} ms are more than ${MOST}`);
      process.exitCode = 1;
    }
  }

  const urls = network.nodes.flatMap(({ rpc }) => ['--rpc', rpc]);
  const load = promisify(execFile)(corniche, ['load', ...urls, '--rate', String(rate), '--seconds', String(seconds), '--senders', '16']);
  const page = await explorer.visit('/');
  await page.evaluate(() => {
    window.busy = 0;
    new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => { window.busy += duration; })).observe({ entryTypes: ['longtask'] });
  });
  const height = async () => Number((await network.nodes[0].call('eth_blockNumber')).result);
  const behind = [];
  const shown = new Set();
  const began = Date.now();
  let over = false;
  const ended = load.finally(() => { over = true; });
  while (!over) {
    const [block, node] = await Promise.all([page.locator('#blocks tbody a').first().innerText(), height()]);
    shown.add(block);
    behind.push(node - Number(block.replaceAll(',', '')));
    await wait(100);
  }
  const lasted = (Date.now() - began) / 1_000;
  console.log((await ended).stdout.trim());
  const longTasks = await page.evaluate(() => window.busy);
  console.log(`home at ${rate} transfers/s: ${(shown.size / lasted).toFixed(1)} turns/s, behind the node ${middle(behind)} blocks, worst ${Math.max(...behind)}; ` +
    `long tasks of the page ${((longTasks / lasted) / 10).toFixed(1)} % of the time; errors: ${page.problems.length}`);
  await close(page);
} finally {
  for (const end of ends) await end();
  await network.down();
}

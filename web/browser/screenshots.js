// Takes screenshots of the explorer for the README and docs/explorer.md, on networks of four validators with
// transactions: `npm run screenshots`.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Network } from '../../testnet/js/network.js';
import { until } from '../../testnet/js/until.js';
import { fill } from './lib/chain.js';
import { Explorer, PHONE, close } from './lib/explorer.js';

const images = fileURLToPath(new URL('../../docs/images', import.meta.url));
const TALL = { viewport: { width: 1280, height: 1500 } };

/**
 * Takes the screenshots that `choose` returns (path and look) on a network of this engine. `happen`: something to show on them, after the
 * first transactions.
 */
async function take(engine, choose, { happen = () => {}, ...options } = {}) {
  const network = await Network.up({ validators: 4, explorer: true, engine, ...options });
  const ends = [];
  try {
    const chain = await fill(network);
    const wallet = network.nodes[0].wallet(chain.owner);
    const pay = async (payments) => {
      for (let value = 1n; value <= payments; value++) {
        await network.nodes[0].receipt(await wallet.sendTransaction({ to: chain.friend.address, value }));
      }
    };
    await pay(40n);
    const happened = await happen(network, pay);
    const moved = `/tx/${chain.moved.hash}`;
    await until('the explorer to know certificates and calls', async () => {
      const text = await (await fetch(network.explorer + moved)).text();
      return text.includes('is-certified') && text.includes('Internal transactions');
    });
    const explorer = await Explorer.open({ after: (end) => ends.push(end) }, network.explorer);
    for (const [name, [path, look]] of Object.entries(choose(chain, moved, happened))) {
      const page = await explorer.visit(path, look);
      await page.screenshot({ path: join(images, `explorer-${name}.png`) });
      await close(page);
    }
  } finally {
    for (const end of ends) await end();
    await network.down();
  }
}

await take('mahi-mahi', (chain, moved) => ({
  home: ['/', {}],
  dag: ['/dag', { colorScheme: 'dark' }],
  block: [`/block/${chain.moved.receipt.blockNumber}`, TALL],
  transaction: [moved, TALL],
  phone: ['/', { viewport: PHONE, colorScheme: 'dark' }],
}));
await take('autobahn', () => ({ lanes: ['/dag', {}] }));

/** Lets the second sequencer replace the first one. Returns a slot shortly before its epoch. */
async function replaceSequencer({ nodes: [node], sequencers: [first] }, pay) {
  first.kill();
  await pay(3n);
  const { result: { slots } } = await node.call('corniche_getDag', 'latest', '0xc8');
  return Number(slots.find(({ why }) => why.endsWith(' of epoch 1')).round) - 4;
}

const WITH_TABLE = { viewport: { width: 1280, height: 1200 } };
await take('neobft', (chain, moved, slot) => ({ 'packet-log': [`/dag?round=${slot}`, WITH_TABLE] }), { sequencers: 2, happen: replaceSequencer });

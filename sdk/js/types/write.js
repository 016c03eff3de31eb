// Starts a node and writes viem/src/rpc.ts from its document.

import { writeFileSync } from 'node:fs';
import { Network } from '../../../testnet/js/network.js';
import { typesOf } from './generate.js';

const network = await Network.dev();
try {
  const { result } = await network.nodes[0].call('rpc_discover');
  writeFileSync(new URL('../viem/src/rpc.ts', import.meta.url), await typesOf(result));
} finally {
  await network.down();
}

// Responses to invalid input: the codes and messages that wallets expect, and never silence.

import assert from 'node:assert/strict';
import { bytesToHex, concatHex, keccak256, toHex } from 'viem';
import { until } from '../../js/until.js';
import { withNetwork, underEveryEngine } from '../../js/network.js';
import { eip1559, highS, unprotected } from '../../js/transactions.js';

underEveryEngine('bad input', { timeout: 300_000 }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { engine, validators: 1 });

  const [node] = network.nodes;
  const [rich, , other] = network.accounts;
  const chainId = network.chain.id;
  const gasPrice = await node.client.getGasPrice();

  /** Sends the bytes and checks code and message of the refusal. */
  const refused = async (raw, message, code = -32000) => {
    const { error, result } = await node.call('eth_sendRawTransaction', raw);
    assert.ok(error, `was taken as ${result}`);
    assert.match(error.message, message);
    assert.equal(error.code, code, error.message);
  };
  const taken = async (raw) => {
    const { error, result } = await node.call('eth_sendRawTransaction', raw);
    assert.equal(result, keccak256(raw), error?.message);
    return result;
  };
  const receiptOf = (hash) => node.receipt(hash);

  await step('a transfer costs exactly 21000 gas', async () => {
    const hash = await taken(await eip1559(rich, { chainId, nonce: 0 }));
    const { status, gasUsed } = await receiptOf(hash);
    assert.deepEqual({ status, gasUsed }, { status: 'success', gasUsed: 21_000n });
  });

  await step('transactions that can never be valid', async () => {
    await refused('0xdeadbeef', /rlp|type not supported/);
    await refused('0x', /rlp/);
    await refused(concatHex([await eip1559(rich, { chainId, nonce: 1 }), '0x00']), /rlp/);
    await refused(`0x03${'00'.repeat(40)}`, /transaction type not supported/);
    await refused(`0x04${'00'.repeat(40)}`, /transaction type not supported/);
    await refused(await eip1559(rich, { chainId, nonce: 1, data: `0x${'00'.repeat(131_072)}` }), /oversized data/);
    await refused(await eip1559(rich, { chainId: chainId + 1, nonce: 1 }), /invalid chain id/);
    await refused(await unprotected(rich, { nonce: 1 }), /replay-protected/);
    await refused(await eip1559(rich, { chainId, nonce: 1 }, highS), /invalid transaction v, r, s|invalid sender/);
    await refused(await eip1559(rich, { chainId, nonce: 1 }, (signature) => ({ ...signature, r: 0n })), /invalid/);
    await refused(await eip1559(rich, { chainId, nonce: 1, tip: 10n ** 12n }), /max priority fee per gas higher than max fee per gas/);
    await refused(await eip1559(rich, { chainId, nonce: 1, gas: 20_999n }), /intrinsic gas too low/);
    await refused(await eip1559(rich, { chainId, nonce: 1, gas: 10n ** 15n }), /exceeds block gas limit/);
  });

  await step('transactions that are not valid now', async () => {
    await refused(await eip1559(rich, { chainId, nonce: 0 }), /nonce too low/);
    await refused(await eip1559(rich, { chainId, nonce: 1, fee: 1n, tip: 0n }), /max fee per gas less than block base fee|underpriced/);
    await refused(await eip1559(rich, { chainId, nonce: 1, value: 10n ** 30n }), /insufficient funds/);
    // Fees count in addition to the value.
    const balance = await node.client.getBalance({ address: other.address });
    await refused(await eip1559(other, { chainId, nonce: 0, value: balance, fee: gasPrice * 2n }), /insufficient funds/);
  });

  await step('a transaction behind a nonce gap waits and is replaceable', async () => {
    const nonce = 3;
    const waiting = await eip1559(rich, { chainId, nonce, value: 1n });
    const hash = await taken(waiting);
    await refused(waiting, /already known/);
    await refused(await eip1559(rich, { chainId, nonce, value: 2n }), /replacement transaction underpriced/);
    const { result } = await node.call('eth_getTransactionByHash', hash);
    assert.equal(result.hash, hash);
    assert.equal(result.blockHash, null);
    assert.equal(await node.client.getTransactionCount({ address: rich.address, blockTag: 'pending' }), 1);
    // The gap closes, and the waiting transaction is executed.
    await taken(await eip1559(rich, { chainId, nonce: 2 }));
    await taken(await eip1559(rich, { chainId, nonce: 1 }));
    assert.equal((await receiptOf(hash)).status, 'success');
  });

  await step('an invalid deployment fails with a reason', async () => {
    const evm = '0x6080604052348015600f57600080fd5b50603f80601d6000396000f3fe';
    const garbage = '0x0061736d01000000ffffffff';
    // f32.const in a function: (module (memory 1) (func (export "user_entrypoint") (param i32) (result i32) …))
    const float = bytesToHex(floatModule());
    for (const [data, words] of [
      [evm, /EVM/i],
      [garbage, /./],
      [float, /float|f32/i],
    ]) {
      const { error } = await node.call('eth_estimateGas', { from: rich.address, data });
      assert.ok(error, 'an estimate for what cannot be deployed');
      assert.match(error.message, words);
      const nonce = await node.client.getTransactionCount({ address: rich.address, blockTag: 'pending' });
      const hash = await taken(await eip1559(rich, { chainId, nonce, to: null, gas: 2_000_000n, data }));
      const receipt = await receiptOf(hash);
      assert.equal(receipt.status, 'reverted');
      if (receipt.contractAddress) assert.equal(await node.client.getCode({ address: receipt.contractAddress }), undefined);
    }
  });

  await step('invalid JSON, methods and parameters', async () => {
    const code = async (body) => (await node.post(body)).answer.error.code;
    assert.equal(await code('{"jsonrpc":"2.0","id":1,'), -32700);
    assert.equal(await code('[]'), -32600);
    assert.equal(await code({ jsonrpc: '2.0', id: 1 }), -32600);
    assert.equal((await node.call('eth_noSuchMethod')).error.code, -32601);
    assert.equal((await node.call('eth_getBalance')).error.code, -32602);
    assert.equal((await node.call('eth_getBalance', 'nobody', 'latest')).error.code, -32602);
    assert.equal((await node.call('eth_getBalance', rich.address, 'someday')).error.code, -32602);
    assert.equal((await node.call('eth_sendRawTransaction', 'not hex')).error.code, -32602);
    assert.equal((await node.call('eth_sendRawTransaction', 17)).error.code, -32602);
    assert.equal((await node.call('eth_getTransactionReceipt', '0x12')).error.code, -32602);
    await assert.doesNotReject(node.post(`${'['.repeat(10_000)}`));
  });

  await step('a batch is answered with its ids', async () => {
    const { answer } = await node.post([
      { jsonrpc: '2.0', id: 'a', method: 'eth_chainId', params: [] },
      { jsonrpc: '2.0', id: 7, method: 'eth_noSuchMethod', params: [] },
      { jsonrpc: '2.0', id: 8, method: 'eth_blockNumber' },
    ]);
    const byId = new Map(answer.map((entry) => [entry.id, entry]));
    assert.equal(byId.get('a').result, toHex(chainId));
    assert.equal(byId.get(7).error.code, -32601);
    assert.match(byId.get(8).result, /^0x/);
  });

  await step('oversized requests are refused', async () => {
    const call = { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] };
    const { answer } = await node.post(Array.from({ length: 100_000 }, (_, id) => ({ ...call, id }))).catch(() => ({ answer: { error: {} } }));
    assert.ok(!Array.isArray(answer) && answer.error, 'a batch of 100000 was answered');
    const body = JSON.stringify({ ...call, params: ['x'.repeat(64 << 20)] });
    const refusal = await node.post(body).catch((error) => ({ status: 413, answer: { error } }));
    assert.ok(refusal.status >= 400 || refusal.answer.error, 'a body of 64 MiB was taken');
    // The node closes the connection of a refused body, and the client may take it once more.
    assert.equal(await until('the node to answer on a new connection', () => node.client.getChainId()), chainId);
  });

  await step('absurd block ranges', async () => {
    const logs = (filter) => node.call('eth_getLogs', filter);
    assert.ok((await logs({ fromBlock: '0xffffffffffff', toBlock: '0x0' })).error);
    assert.ok((await logs({ fromBlock: '0x2', toBlock: '0x1' })).error);
    assert.ok((await logs({ fromBlock: '0xfffffffffffffffffffffffff', toBlock: 'latest' })).error);
    assert.ok((await logs({ topics: Array.from({ length: 5 }, () => null) })).error);
    assert.equal((await node.call('eth_getBlockByNumber', '0xffffffff', false)).result, null);
    assert.equal((await node.call('eth_getBlockByHash', keccak256('0x01'), false)).result, null);
    assert.equal((await node.call('eth_getTransactionReceipt', keccak256('0x01'))).result, null);
    assert.equal((await node.call('eth_getTransactionByHash', keccak256('0x01'))).result, null);
    assert.ok((await node.call('eth_call', { to: rich.address }, '0xffffffff')).error);
    const history = await node.call('eth_feeHistory', '0xffffffff', 'latest', []);
    assert.ok(history.error || history.result.baseFeePerGas.length <= 1025);
  });

  await step('refusals are counted and CORS is allowed', async () => {
    const metrics = await (await fetch(node.metrics)).text();
    assert.match(metrics, /^corniche_transactions_refused_total [1-9]/m);
    assert.match(metrics, /^corniche_rpc_requests_total\{method="unknown",code="-32601"\} [1-9]/m);
    assert.match(metrics, /^corniche_rpc_requests_total\{method="eth_getBalance",code="-32602"\} [1-9]/m);
    assert.equal((await fetch(new URL('/health', node.rpc))).status, 200);
    const preflight = await fetch(node.rpc, {
      method: 'OPTIONS',
      headers: { origin: 'https://dapp.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type' },
    });
    assert.ok(preflight.ok);
    assert.ok(['*', 'https://dapp.example'].includes(preflight.headers.get('access-control-allow-origin')));
  });
});

/** A module that is valid except for one float. */
function floatModule() {
  const section = (id, ...bytes) => [id, bytes.length, ...bytes];
  const name = (text) => [text.length, ...Buffer.from(text)];
  return Uint8Array.from([
    0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00,
    ...section(1, 1, 0x60, 1, 0x7f, 1, 0x7f),
    ...section(3, 1, 0),
    ...section(5, 1, 0x00, 1),
    ...section(7, 2, ...name('memory'), 0x02, 0, ...name('user_entrypoint'), 0x00, 0),
    // f32.const 0, drop, i32.const 0, end
    ...section(10, 1, 10, 0, 0x43, 0, 0, 0, 0, 0x1a, 0x41, 0x00, 0x0b),
  ]);
}

// Checks of call traces, which do not depend on the client.

import assert from 'node:assert/strict';
import { decodeErrorResult, parseAbi } from 'viem';

/** Options of the `call` trace: geth's call tracer, with logs. */
export const CALL_TRACER = { tracer: 'callTracer', tracerConfig: { withLog: true } };

/** Address of the Multicall3 in every genesis, and the functions that the tour calls. */
export const MULTICALL3 = '0xcA11bde05977b3631167028862bE2a173976CA11';
export const MULTICALL3_SIGNATURES = [
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) payable returns ((bool success, bytes returnData)[] returnData)',
  'function getEthBalance(address account) view returns (uint256 balance)',
];

const same = (one, other) => assert.equal(one.toLowerCase(), other.toLowerCase());

/** Checks the trace of a successful token transfer: one frame, and the same log as in the receipt. */
export function assertTransferTraced(trace, { from, token, receipt }) {
  assert.deepEqual([trace.type, trace.value, trace.error, trace.calls], ['CALL', '0x0', undefined, undefined]);
  same(trace.from, from);
  same(trace.to, token);
  assert.equal(BigInt(trace.gasUsed), BigInt(receipt.gasUsed));
  const [{ topics, data, address }] = receipt.logs;
  assert.deepEqual(trace.logs, [{ address: address.toLowerCase(), topics: [...topics], data, position: '0x0' }]);
}

/** Checks the trace of a transfer from an account without tokens: the output has the error, and there are no logs. */
export function assertRevertTraced(trace, { from, token, abi }) {
  assert.deepEqual([trace.type, trace.error, trace.logs], ['CALL', 'execution reverted', undefined]);
  same(trace.from, from);
  same(trace.to, token);
  const { errorName, args } = decodeErrorResult({ abi, data: trace.output });
  assert.deepEqual([errorName, args[0].toLowerCase(), args[1]], ['ERC20InsufficientBalance', from.toLowerCase(), 0n]);
}

/** Checks the trace of Multicall3's `aggregate3` with two calls of a token: two inner frames, of which the second one fails. */
export function assertNestedTraced(trace, { from, token, abi }) {
  same(trace.from, from);
  same(trace.to, MULTICALL3);
  assert.equal(trace.error, undefined);
  assert.equal(trace.calls.length, 2);
  for (const call of trace.calls) {
    same(call.from, MULTICALL3);
    same(call.to, token);
    assert.ok(BigInt(call.gasUsed) < BigInt(trace.gasUsed));
  }
  const [first, second] = trace.calls;
  assert.deepEqual([first.error, second.error], [undefined, 'execution reverted']);
  assert.equal(decodeErrorResult({ abi, data: second.output }).errorName, 'ERC20InsufficientBalance');
}

export const multicall3Abi = parseAbi(MULTICALL3_SIGNATURES);

// What the call tracer has to say of transactions that every client sent, whatever words it asked in.

import assert from 'node:assert/strict';
import { decodeErrorResult, parseAbi } from 'viem';

/** What `call` trace asks for: geth's tracer of calls, with their logs. */
export const CALL_TRACER = { tracer: 'callTracer', tracerConfig: { withLog: true } };

/** Where every genesis has one, and what of it the tour calls. */
export const MULTICALL3 = '0xcA11bde05977b3631167028862bE2a173976CA11';
export const MULTICALL3_SIGNATURES = [
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) payable returns ((bool success, bytes returnData)[] returnData)',
  'function getEthBalance(address account) view returns (uint256 balance)',
];

const same = (one, other) => assert.equal(one.toLowerCase(), other.toLowerCase());

/** A transfer of tokens that went through: one frame, and the log that its receipt has, too. */
export function assertTransferTraced(trace, { from, token, receipt }) {
  assert.deepEqual([trace.type, trace.value, trace.error, trace.calls], ['CALL', '0x0', undefined, undefined]);
  same(trace.from, from);
  same(trace.to, token);
  assert.equal(BigInt(trace.gasUsed), BigInt(receipt.gasUsed));
  const [{ topics, data, address }] = receipt.logs;
  assert.deepEqual(trace.logs, [{ address: address.toLowerCase(), topics: [...topics], data, position: '0x0' }]);
}

/** One that its sender, who owns nothing, sent all the same: why it failed stands in the output, and its logs are gone. */
export function assertRevertTraced(trace, { from, token, abi }) {
  assert.deepEqual([trace.type, trace.error, trace.logs], ['CALL', 'execution reverted', undefined]);
  same(trace.from, from);
  same(trace.to, token);
  const { errorName, args } = decodeErrorResult({ abi, data: trace.output });
  assert.deepEqual([errorName, args[0].toLowerCase(), args[1]], ['ERC20InsufficientBalance', from.toLowerCase(), 0n]);
}

/** A Multicall3's `aggregate3` of two calls of a token, of which the second may fail and does: two frames inside, and the failure in the second. */
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

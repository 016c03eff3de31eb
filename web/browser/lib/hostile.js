// Contracts with hostile names, ABIs and errors: modules that are generated here and run by real nodes.

import {
  bytesToHex, concatHex, encodeAbiParameters, encodeErrorResult, hexToBytes, numberToHex, pad, parseAbi, stringToHex, toEventSelector,
  toFunctionSelector,
} from 'viem';
import wabt from 'wabt';

const SCRIPT = '<script>document.title = "taken"; alert(1)</script>';
/** Ends any attribute, comment, text area, style or script in which it is placed. */
const BREAKS_OUT = `"'\`--></textarea></title></style></script></pre><img src=x onerror=alert(2)>${SCRIPT}`;

const string = (text) => encodeAbiParameters([{ type: 'string' }], [text]);
/** ABI-encodes a `string` of these bytes, which need not be UTF-8. */
const raw = (bytes) => concatHex([pad('0x20'), pad(numberToHex(bytes.length)), bytesToHex(bytes)]);

/** Returns an ABI with this text as name, for the custom section. */
function named(text) {
  const parameter = { name: text, type: 'uint256', internalType: text };
  return JSON.stringify([
    { type: 'function', name: text, inputs: [parameter], outputs: [parameter], stateMutability: 'view' },
    { type: 'function', name: 'mint', inputs: [parameter], outputs: [], stateMutability: 'nonpayable' },
    { type: 'function', name: 'name', inputs: [], outputs: [{ name: text, type: 'string' }], stateMutability: 'view' },
    { type: 'event', name: 'Said', inputs: [{ name: text, type: 'string', indexed: false }], anonymous: false },
    { type: 'error', name: text, inputs: [parameter] },
  ]);
}

/** Returns an ABI with nested tuples and arrays that exceed all limits. */
function deep(levels) {
  const nested = `{"name":"x","type":"tuple","components":[`.repeat(levels) + `{"name":"x","type":"uint8"}` + ']}'.repeat(levels);
  const arrays = `{"name":"y","type":"uint8${'[1000000]'.repeat(200)}"}`;
  return `[{"type":"function","name":"f","inputs":[${nested},${arrays}],"outputs":[],"stateMutability":"view"},
    {"type":"function","name":"name","inputs":[],"outputs":[],"stateMutability":"view"}]`;
}

/** Returns modules by name. Each mints one token to `owner` when called without data, and reverts unknown calls. */
export async function modules(owner) {
  const { parseWat } = await wabt();
  const made = (answers, refusal, abi) => {
    const parsed = parseWat('hostile.wat', written(owner, answers, refusal), { bulk_memory: true });
    const { buffer } = parsed.toBinary({});
    parsed.destroy();
    return abi === undefined ? buffer : withSection(buffer, 'corniche.abi', new TextEncoder().encode(abi));
  };
  const bytes = new Uint8Array([0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x00, 0x1b, 0xe2, 0x80, 0xae, 0x41, 0xf4, 0x90, 0x80, 0x80]);
  const error = (text) => encodeErrorResult({ abi: parseAbi(['error Error(string)']), errorName: 'Error', args: [text] });
  return {
    script: made({ 'name()': string(SCRIPT), 'symbol()': string(BREAKS_OUT), 'decimals()': pad('0xff') }, error(BREAKS_OUT), named(BREAKS_OUT)),
    huge: made({ 'name()': 1 << 20, 'symbol()': 1 << 20, 'decimals()': `0x${'ff'.repeat(32)}` }, error('A'.repeat(30_000))),
    broken: made({ 'name()': raw(bytes), 'symbol()': raw(bytes), 'decimals()': '0x12' }, concatHex(['0x08c379a0', raw(bytes)]), '\u0000[{]'),
    deep: made({ 'name()': pad('0x20'), 'symbol()': `0x${'ff'.repeat(96)}` }, '0x4e487b71', deep(2_000)),
  };
}

/** Address of the return data. The calldata is stored before it. */
const DATA = 65_536;

/** Returns the source of a module. `answers` has return data by signature; a number means a string of that many letters. */
function written(owner, answers, refusal) {
  const segments = [];
  let next = DATA;
  const lies = (hex) => {
    const at = next;
    const bytes = hexToBytes(hex);
    segments.push(`(data (i32.const ${at}) "${[...bytes].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')}")`);
    next += Math.ceil(bytes.length / 32) * 32;
    return [at, bytes.length];
  };
  const log = (topics, data) => {
    const [at, length] = lies(concatHex([...topics, data]));
    return `(call $emit_log (i32.const ${at}) (i32.const ${length}) (i32.const ${topics.length}))`;
  };
  const answer = ([at, length], status) => `(call $write_result (i32.const ${at}) (i32.const ${length})) (return (i32.const ${status}))`;
  const minted = log([toEventSelector('Transfer(address,address,uint256)'), pad('0x'), pad(owner)], pad('0x01'));
  const said = log([toEventSelector('Said(string)')], string(BREAKS_OUT));
  const cases = Object.entries(answers).map(([signature, result]) => {
    // In the byte order of WebAssembly.
    const selector = bytesToHex(hexToBytes(toFunctionSelector(signature)).reverse());
    const long = (letters) => {
      const [at] = lies(concatHex([pad('0x20'), pad(numberToHex(letters))]));
      return `(memory.fill (i32.const ${at + 64}) (i32.const 65) (i32.const ${letters})) ${answer([at, 64 + letters], 0)}`;
    };
    const says = typeof result === 'number' ? long(result) : answer(lies(result), 0);
    return `(if (i32.eq (local.get $asked) (i32.const ${selector})) (then ${says}))`;
  });
  const refused = answer(lies(refusal), 1);
  return `(module
    (import "vm_hooks" "read_args" (func $read_args (param i32)))
    (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
    (import "vm_hooks" "emit_log" (func $emit_log (param i32 i32 i32)))
    (memory (export "memory") 20)
    ${segments.join('\n')}
    (func (export "user_entrypoint") (param $length i32) (result i32) (local $asked i32)
      (if (i32.eqz (local.get $length)) (then ${minted} ${said} (return (i32.const 0))))
      (if (i32.gt_u (local.get $length) (i32.const 60000)) (then (unreachable)))
      (call $read_args (i32.const 0))
      (local.set $asked (i32.load (i32.const 0)))
      ${cases.join('\n')}
      ${refused}))`;
}

/** Appends a custom section to a module. */
function withSection(module, name, content) {
  const number = (value) => {
    const bytes = [];
    for (; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
    return [...bytes, value];
  };
  const title = hexToBytes(stringToHex(name));
  const inner = new Uint8Array([...number(title.length), ...title, ...content]);
  return new Uint8Array([...module, 0, ...number(inner.length), ...inner]);
}

// Compiles Token.sol to token.json: `npm install --no-save solc@0.8.37 && node bench/compile.js`. Necessary only after
// a change of the source.

import { readFileSync, writeFileSync } from 'node:fs';
import solc from 'solc';

const at = (name) => new URL(name, import.meta.url);
const input = {
  language: 'Solidity',
  sources: { 'Token.sol': { content: readFileSync(at('Token.sol'), 'utf8') } },
  settings: { optimizer: { enabled: true, runs: 200 }, evmVersion: 'paris', outputSelection: { '*': { '*': ['evm.bytecode.object'] } } },
};
const { errors = [], contracts } = JSON.parse(solc.compile(JSON.stringify(input)));
for (const { formattedMessage } of errors) console.error(formattedMessage);
const bytecode = `0x${contracts['Token.sol'].Token.evm.bytecode.object}`;
writeFileSync(at('token.json'), `${JSON.stringify({ compiler: solc.version(), bytecode }, null, 2)}\n`);

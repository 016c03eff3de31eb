// Signed transactions that no library would sign, with arbitrary fields.

import { concatHex, hexToBigInt, keccak256, numberToHex, toRlp } from 'viem';

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/** A number in RLP, without leading zeros. */
export const quantity = (value) => (BigInt(value) === 0n ? '0x' : evenHex(BigInt(value)));
const evenHex = (value) => {
  const digits = value.toString(16);
  return digits.length % 2 === 0 ? `0x${digits}` : `0x0${digits}`;
};

/** A signed EIP-1559 transaction. `edit` may change `{ r, s, yParity }` afterwards. */
export async function eip1559(account, fields, edit = (signature) => signature) {
  const { chainId, nonce = 0, tip = 1n, fee = 10n ** 11n, gas = 21_000n, to = account.address, value = 0n, data = '0x' } = fields;
  const unsigned = [chainId, nonce, tip, fee, gas].map(quantity).concat([to ?? '0x', quantity(value), data, []]);
  const signed = await account.sign({ hash: keccak256(concatHex(['0x02', toRlp(unsigned)])) });
  const { r, s, yParity } = edit(split(signed));
  return concatHex(['0x02', toRlp([...unsigned, quantity(yParity), quantity(r), quantity(s)])]);
}

/** A legacy transaction without replay protection. */
export async function unprotected(account, { nonce = 0, price = 10n ** 11n, gas = 21_000n, to = account.address, value = 0n }) {
  const unsigned = [nonce, price, gas].map(quantity).concat([to, quantity(value), '0x']);
  const { r, s, yParity } = split(await account.sign({ hash: keccak256(toRlp(unsigned)) }));
  return toRlp([...unsigned, numberToHex(27 + yParity), quantity(r), quantity(s)]);
}

/** The other signature of this message, which Ethereum forbids since EIP-2. */
export const highS = ({ r, s, yParity }) => ({ r, s: ORDER - s, yParity: 1 - yParity });

function split(signature) {
  const word = (index) => hexToBigInt(`0x${signature.slice(2 + 64 * index, 66 + 64 * index)}`);
  return { r: word(0), s: word(1), yParity: Number.parseInt(signature.slice(130, 132), 16) - 27 };
}

// Converts an untrusted ABI to one that is safe for viem: only items of a known shape, without other fields.

import type { Abi, AbiParameter } from 'viem';

/** Most characters of an ABI that are read. */
export const LONGEST_ABI = 256 * 1024;

/** Most levels of nested tuples. */
const DEEPEST = 16;

/** A contract's embedded ABI is invalid. */
export class InterfaceError extends Error {
  override name = 'InterfaceError';
}

/** Parses an ABI. Throws an `InterfaceError` if it is invalid. */
export function readAbi(text: string): Abi {
  if (text.length > LONGEST_ABI) throw new InterfaceError(`it has ${text.length} characters, at most ${LONGEST_ABI} are read`);
  return list(parsed(text), 'the interface').map(item) as Abi;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InterfaceError('the interface is not JSON');
  }
}

function item(value: unknown, index: number): object {
  const at = `item ${index}`;
  const { type, name, inputs = [], outputs = [], stateMutability, anonymous = false } = record(value, at);
  switch (type) {
    case 'function':
      return { type, name: word(name, at), inputs: parameters(inputs, at), outputs: parameters(outputs, at), stateMutability: mutability(stateMutability, at) };
    case 'event':
      return { type, name: word(name, at), inputs: parameters(inputs, at, true), anonymous: flag(anonymous, at) };
    case 'error':
      return { type, name: word(name, at), inputs: parameters(inputs, at) };
    case 'constructor':
      return { type, inputs: parameters(inputs, at), stateMutability: mutability(stateMutability, at) };
    case 'fallback':
    case 'receive':
      return { type, stateMutability: mutability(stateMutability, at) };
    default:
      throw new InterfaceError(`${at} is neither a function nor an event nor an error`);
  }
}

function parameters(value: unknown, at: string, ofEvent = false, depth = 0): AbiParameter[] {
  if (depth > DEEPEST) throw new InterfaceError(`${at} has tuples in more than ${DEEPEST} others`);
  return list(value, `what ${at} takes or gives`).map((each) => {
    const { type, name = '', components, indexed = false } = record(each, at);
    if (typeof type !== 'string' || !/^[a-z][a-z0-9]{0,31}(\[\d{0,9}\]){0,8}$/.test(type)) throw new InterfaceError(`${at} has a parameter of no type`);
    return {
      type,
      name: name === '' ? '' : word(name, at),
      ...(ofEvent ? { indexed: flag(indexed, at) } : {}),
      ...(type.startsWith('tuple') ? { components: parameters(components, at, false, depth + 1) } : {}),
    } as AbiParameter;
  });
}

function record(value: unknown, at: string): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new InterfaceError(`${at} is no object`);
  return value as Record<string, unknown>;
}

function list(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new InterfaceError(`${what} is no array`);
  return value;
}

function word(value: unknown, at: string): string {
  if (typeof value !== 'string' || !/^[A-Za-z_$][\w$]{0,255}$/.test(value)) throw new InterfaceError(`${at} has a name that is none`);
  return value;
}

function flag(value: unknown, at: string): boolean {
  if (typeof value !== 'boolean') throw new InterfaceError(`${at} has neither true nor false where it should`);
  return value;
}

function mutability(value: unknown, at: string): string {
  if (value === undefined) return 'nonpayable';
  if (typeof value !== 'string' || !/^(pure|view|nonpayable|payable)$/.test(value)) throw new InterfaceError(`${at} has a state mutability that is none`);
  return value;
}

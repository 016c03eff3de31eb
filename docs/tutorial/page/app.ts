// The page: shows the counter's number, lets a wallet increment it, and then verifies the new number from the genesis alone.

import { Verifier, cornicheActions, cornicheAt } from '@corniche/viem';
import { createPublicClient, createWalletClient, custom, getContract, http, type Address, type EIP1193Provider } from 'viem';
import { address } from './address.js';
import { counterAbi } from './counter.js';

const element = <E extends HTMLElement>(id: string) => document.getElementById(id) as E;
const [number, connect, raise, said] = [element<HTMLOutputElement>('number'), element<HTMLButtonElement>('connect'), element<HTMLButtonElement>('raise'), element('said')];

const chain = await cornicheAt('http://127.0.0.1:8545', { name: 'Corniche on this machine' });
const client = createPublicClient({ chain, transport: http() }).extend(cornicheActions());
const counter = getContract({ address, abi: counterAbi, client });
number.value = String(await counter.read.number());

/** Trusts only the genesis, which is served with the page. */
const verifier = await Verifier.open(await (await fetch('genesis.json')).text());
connect.disabled = false;

connect.onclick = () => telling(async () => {
  const provider = (window as { ethereum?: EIP1193Provider }).ethereum;
  if (!provider) throw new Error('There is no wallet in this browser.');
  const wallet = createWalletClient({ chain, transport: custom(provider) });
  await wallet.addChain({ chain });
  const [account] = await wallet.requestAddresses();
  raise.disabled = false;
  raise.onclick = () => telling(() => raised(wallet, account!));
  return `Connected as ${account}.`;
});

async function raised(wallet: ReturnType<typeof createWalletClient>, account: Address): Promise<string> {
  said.textContent = 'On its way …';
  const hash = await wallet.writeContract({ chain, account, address, abi: counterAbi, functionName: 'increment' });
  const { signers } = await client.waitForCertificate({ hash });
  // The number is in the contract's first slot. The verifier checks the node's response here.
  const proven = await client.verifyAccount({ verifier, address, slots: ['0x0'] });
  number.value = String(BigInt(proven!.storage[0]!.value));
  return `Final in block ${proven!.header.number}, signed by ${signers.length} of ${verifier.validators} validators.`;
}

/** Shows the result or the error message of `work`. */
async function telling(work: () => Promise<string>): Promise<void> {
  said.textContent = await work().catch((error: Error) => error.message);
}

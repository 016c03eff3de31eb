// A browser wallet based on viem: an EIP-1193 provider like those of extensions. It trusts the page instead of asking
// its owner, and knows no network until one is added.

import { createWalletClient, defineChain, http, numberToHex, publicActions } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

const UNRECOGNIZED_CHAIN = 4902;
const INVALID_PARAMETERS = -32602;

class ProviderError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export class Wallet {
  #account;
  #networks = new Map();
  #chosen;
  #listeners = new Map();

  constructor(key) {
    this.#account = privateKeyToAccount(key);
  }

  on(event, listener) {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
    return this;
  }

  removeListener(event, listener) {
    this.#listeners.set(event, (this.#listeners.get(event) ?? []).filter((other) => other !== listener));
    return this;
  }

  #emit(event, value) {
    for (const listener of this.#listeners.get(event) ?? []) listener(value);
  }

  async request({ method, params = [] }) {
    const own = this.#methods[method];
    if (own) return own(...params);
    return this.#client.request({ method, params });
  }

  #methods = {
    eth_requestAccounts: () => [this.#account.address],
    eth_accounts: () => [this.#account.address],
    eth_chainId: () => numberToHex(this.#client.chain.id),
    wallet_addEthereumChain: (network) => this.#add(network),
    wallet_switchEthereumChain: ({ chainId }) => this.#choose(chainId),
    eth_sendTransaction: ({ to, data, value, gas, type }) => {
      const number = (quantity) => (quantity === undefined ? undefined : BigInt(quantity));
      const kinds = { '0x0': 'legacy', '0x1': 'eip2930', '0x2': 'eip1559' };
      return this.#client.sendTransaction({ to, data, value: number(value), gas: number(gas), type: kinds[type] });
    },
    personal_sign: (message) => this.#account.signMessage({ message: { raw: message } }),
    eth_signTypedData_v4: (_, typed) => this.#account.signTypedData(JSON.parse(typed)),
  };

  get #client() {
    if (!this.#chosen) throw new ProviderError(UNRECOGNIZED_CHAIN, 'no network is chosen');
    return this.#chosen;
  }

  /** Checks a network like MetaMask: a currency with 18 decimals, and a node with the same chain id. */
  async #add({ chainId, chainName, nativeCurrency, rpcUrls }) {
    const asked = (holds, message) => {
      if (!holds) throw new ProviderError(INVALID_PARAMETERS, message);
    };
    asked(/^0x[1-9a-f][0-9a-f]*$/.test(chainId) && Number.isSafeInteger(Number(chainId)), `${chainId} is no chain id`);
    asked(typeof chainName === 'string' && chainName !== '', 'the network has no name');
    asked(nativeCurrency?.decimals === 18 && /^.{2,6}$/.test(nativeCurrency.symbol), 'no currency of 18 decimals with a symbol of 2 to 6 characters');
    asked(rpcUrls?.length > 0, 'there is no RPC URL');
    const chain = defineChain({ id: Number(chainId), name: chainName, nativeCurrency, rpcUrls: { default: { http: rpcUrls } } });
    const client = createWalletClient({ account: this.#account, chain, transport: http() }).extend(publicActions);
    const answered = await client.getChainId();
    asked(answered === chain.id, `the node at ${rpcUrls[0]} answers chain id ${answered}`);
    this.#networks.set(chainId, client);
    return this.#choose(chainId);
  }

  #choose(chainId) {
    const client = this.#networks.get(chainId);
    if (!client) throw new ProviderError(UNRECOGNIZED_CHAIN, `there is no network ${chainId}`);
    this.#chosen = client;
    this.#emit('chainChanged', chainId);
    return null;
  }
}

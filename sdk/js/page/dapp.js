// A page that uses its visitor's wallet through `window.ethereum` and ethers.

import { BrowserProvider, Contract, ContractFactory } from 'ethers';
import { Wallet } from './wallet.js';

/** Acts like a browser extension, before the page's own code. */
window.install = (key) => void (window.ethereum = new Wallet(key));

const ask = (method, ...params) => window.ethereum.request({ method, params });
const POLLING_MS = 50;
const provider = () => new BrowserProvider(window.ethereum, undefined, { pollingInterval: POLLING_MS, cacheTimeout: -1 });
/** Converts a rejection to an object that can leave the page. */
const outcome = (promise) =>
  promise.then(
    (result) => ({ result }),
    ({ code, message, data }) => ({ code, message, data }),
  );

window.dapp = {
  switchNetwork: (chainId) => outcome(ask('wallet_switchEthereumChain', { chainId })),
  addNetwork: (network) => outcome(ask('wallet_addEthereumChain', network)),
  connect: async () => ({ accounts: await ask('eth_requestAccounts'), chainId: await ask('eth_chainId') }),

  async sign(message, { domain, types, value }) {
    const signer = await provider().getSigner();
    return { message: await signer.signMessage(message), typed: await signer.signTypedData(domain, types, value) };
  },

  async send(request) {
    const signer = await provider().getSigner();
    const { status, type, gasUsed, hash } = await (await signer.sendTransaction(request)).wait();
    return { status, type, gasUsed: String(gasUsed), hash };
  },

  async deploy({ abi, bytecode }, ...args) {
    const signer = await provider().getSigner();
    const token = await new ContractFactory(abi, bytecode, signer).deploy(...args);
    await token.waitForDeployment();
    return token.target;
  },

  /** Transfers until the page hears of one, and returns that event and the number of transfers. */
  async transfer({ abi, address }, to, amount) {
    const token = new Contract(address, abi, await provider().getSigner());
    let heard;
    await token.once(token.filters.Transfer(null, to), (event) => (heard = event));
    // ethers listens from the block that is the newest when the node responds. The first transfer may be in it already.
    let count = 0;
    while (!heard) {
      await (await token.transfer(to, amount)).wait();
      count += 1;
      await new Promise((resolve) => setTimeout(resolve, 2 * POLLING_MS));
    }
    return { event: heard.args.map(String), count, balance: String(await token.balanceOf(to)) };
  },

  async transferFails({ abi, address }, to, amount) {
    return outcome(new Contract(address, abi, await provider().getSigner()).transfer(to, amount));
  },
};

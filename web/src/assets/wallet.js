// Sends what the forms of a contract's page say, through the reader's wallet (EIP-1193). The server encodes calls, the wallet holds the keys,
// and what this does is carry one to the other. Everything is put into the page as text.
'use strict';

const panel = document.getElementById('wallet');
const chainId = BigInt(panel?.dataset.chainId ?? 0);
/** What is said, from the page. */
const WORDS = JSON.parse(panel?.dataset.words ?? '{}');
const filled = (text, value) => text.replace('{}', () => value);

const refused = (error) => filled(WORDS.refused, String(error?.message ?? error));

let account = null;

function say(text) {
  document.getElementById('wallet-says').textContent = text;
}

// ---- the wallet

const ask = (method, params = []) => window.ethereum.request({ method, params });

async function connect() {
  const accounts = await ask('eth_requestAccounts');
  setAccounts(accounts);
  return account;
}

function setAccounts(accounts) {
  account = accounts?.[0] ?? null;
  say(account ? filled(WORDS.connected, account) : WORDS.offer);
  document.getElementById('connect').hidden = Boolean(account);
}

/** The wallet on this page's chain; it asks its owner. */
async function switchChain() {
  if (BigInt(await ask('eth_chainId')) === chainId) return;
  const wanted = { chainId: `0x${chainId.toString(16)}` };
  try {
    await ask('wallet_switchEthereumChain', [wanted]);
  } catch (error) {
    // 4902: it has never heard of the chain. Some wallets hide the code one level down.
    if (![error?.code, error?.data?.originalError?.code].includes(4902)) throw error;
    if (!panel.dataset.rpc) throw new Error(filled(WORDS.noChain, chainId));
    const symbol = panel.dataset.currency;
    await ask('wallet_addEthereumChain', [{
      ...wanted,
      chainName: `${panel.dataset.name} ${chainId}`,
      nativeCurrency: { name: symbol, symbol, decimals: 18 },
      rpcUrls: [panel.dataset.rpc],
      blockExplorerUrls: [location.origin],
    }]);
  }
  if (BigInt(await ask('eth_chainId')) !== chainId) throw new Error(WORDS.wrongChain);
}

// ---- what came of it, below the form

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function show(form, ...children) {
  form.querySelector('.answer').replaceChildren(...children);
}

function clearWrong(form) {
  for (const note of form.querySelectorAll('.wrong.by-script')) note.remove();
  for (const field of form.querySelectorAll('[aria-invalid]')) field.removeAttribute('aria-invalid');
}

function showWrong(form, { field, problem }) {
  const input = field && form.elements.namedItem(field);
  const note = element('p', problem, { class: 'wrong by-script', role: 'alert' });
  if (!input) { show(form, note); return; }
  input.setAttribute('aria-invalid', 'true');
  input.closest('.field').append(note);
  input.focus();
  show(form);
}

// ---- one call

/** What a form asks for now, and for whom. */
function question(form) {
  const query = new URLSearchParams(new FormData(form));
  query.set('from', account);
  return query.toString();
}

/** A warning was about what was asked then: whoever asks for something else is warned anew. */
function forgetWarning(form) {
  if (form.dataset.warned === undefined) return;
  delete form.dataset.warned;
  form.querySelector('button').textContent = form.dataset.label;
  show(form);
}

async function encode(form, query) {
  const page = new URL(form.action);
  const answer = await fetch(`${page.pathname.replace(/\/write$/, '/encode')}?${query}`, { headers: { accept: 'application/json' } });
  const told = await answer.json().catch(() => ({ problem: filled(WORDS.answered, answer.status) }));
  if (answer.ok) return told;
  showWrong(form, told);
  return null;
}

async function send(form) {
  clearWrong(form);
  const button = form.querySelector('button');
  const label = (form.dataset.label ??= button.textContent);
  const { warned } = form.dataset;
  delete form.dataset.warned;
  button.textContent = label;
  button.disabled = true;
  try {
    show(form, element('p', WORDS.waiting));
    if (!account) await connect();
    await switchChain();
    show(form, element('p', WORDS.encoding));
    const query = question(form);
    const call = await encode(form, query);
    if (!call) return;
    if (call.warning && warned !== query) {
      show(form, element('p', filled(WORDS.undone, call.warning), { class: 'wrong' }));
      button.textContent = WORDS.anyway;
      form.dataset.warned = query;
      return;
    }
    show(form, element('p', WORDS.waiting));
    const { to, data, value } = call;
    const hash = await ask('eth_sendTransaction', [{ from: account, to, data, value }]);
    follow(form, String(hash));
  } catch (error) {
    show(form, element('p', refused(error), { class: 'wrong' }));
  } finally {
    button.disabled = false;
  }
}

/** Says where a transaction stands until it stands there for good. */
async function follow(form, hash) {
  if (!/^0x[0-9a-f]{64}$/i.test(hash)) { show(form, element('p', `${WORDS.sent} ${hash}`)); return; }
  const link = element('a', `${hash.slice(0, 10)}…${hash.slice(-8)}`, { href: `/tx/${hash}` });
  const status = element('span', '', { class: 'tag' });
  const line = element('p', `${WORDS.sent} `);
  line.append(link, ' ', status);
  show(form, line);
  let silent = 0;
  for (let pause = 150; silent < 20; pause = Math.min(pause * 1.5, 2_000)) {
    const told = await fetch(`/tx/${hash}/status`).then((answer) => (answer.ok ? answer.json() : null), () => null);
    // A node that was not told yet by the wallet's own knows nothing; that passes.
    silent = told && told.status !== 'unknown' ? 0 : silent + 1;
    if (told && told.status !== 'unknown') {
      const undone = told.succeeded === false;
      status.className = `tag is-${told.status}${undone ? ' bad' : ''}`;
      status.textContent = undone ? `${told.status}, ${WORDS.reverted}` : told.status;
      if (told.reason) line.append(` ${told.reason}`);
      if (['certified', 'dropped', 'replaced'].includes(told.status)) return;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  line.append(` ${WORDS.quiet}`);
}

// ---- the page

function begin() {
  if (!panel) return;
  if (!window.ethereum?.request) { say(WORDS.none); return; }
  say(WORDS.offer);
  const button = document.getElementById('connect');
  button.hidden = false;
  button.addEventListener('click', () => connect().then(switchChain).catch((error) => say(refused(error))));
  window.ethereum.on?.('accountsChanged', (accounts) => {
    setAccounts(accounts);
    for (const form of document.querySelectorAll('form[data-function]')) forgetWarning(form);
  });
  // Connected before: the wallet says so without asking its owner again.
  ask('eth_accounts').then((accounts) => { if (accounts?.length) setAccounts(accounts); }, () => {});
  for (const form of document.querySelectorAll('form[data-function]')) {
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      send(form);
    });
    form.addEventListener('input', () => forgetWarning(form));
  }
}

// Some wallets come after the page.
if (window.ethereum) begin();
else {
  let begun = false;
  const once = () => { if (!begun) { begun = true; begin(); } };
  window.addEventListener('ethereum#initialized', once, { once: true });
  setTimeout(once, 1_000);
}

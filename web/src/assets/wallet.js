// Sends the calls of a contract page's forms through the reader's wallet (EIP-1193). The server encodes calls, the wallet holds
// the keys, and this script passes calls from one to the other. It inserts everything into the page as text.
'use strict';

const panel = document.getElementById('wallet');
const chainId = BigInt(panel?.dataset.chainId ?? 0);
/** Texts from the page. */
const TEXTS = JSON.parse(panel?.dataset.texts ?? '{}');
const format = (text, value) => text.replace('{}', () => value);

/** Error whose message is shown unchanged. */
const Problem = class extends Error {};

/** Code of a wallet's error (EIP-1193). Some wallets nest it one level deeper. */
const codeOf = (error) => error?.data?.originalError?.code ?? error?.code;
const REJECTED = 4001;
const UNKNOWN_CHAIN = 4902;
const REQUEST_PENDING = -32002;

/** Text for an error. `text` is the template for messages of the wallet. */
function reason(error, text) {
  if (error instanceof Problem) return error.message;
  if (codeOf(error) === REJECTED) return TEXTS.declined;
  if (codeOf(error) === REQUEST_PENDING) return TEXTS.busy;
  return format(text, String(error?.message ?? error).slice(0, 300));
}

let account = null;

function showMessage(text) {
  document.getElementById('wallet-says').textContent = text;
}

// ---- the wallet

const request = async (method, params = []) => window.ethereum.request({ method, params });

async function connect() {
  setAccounts(await request('eth_requestAccounts'));
  if (!account) throw new Problem(TEXTS.noAccount);
}

function setAccounts(accounts) {
  account = accounts?.[0] ?? null;
  showMessage(account ? format(TEXTS.connected, account) : TEXTS.offer);
  document.getElementById('connect').hidden = Boolean(account);
}

const CHAIN = { chainId: `0x${chainId.toString(16)}` };
const isOnChain = async () => BigInt(await request('eth_chainId')) === chainId;
const wrongChain = () => new Problem(format(TEXTS.wrongChain, chainId));

/** Switches the wallet to the page's chain. The wallet asks its owner first. */
async function switchChain() {
  if (await isOnChain()) return;
  const change = () => request('wallet_switchEthereumChain', [CHAIN]);
  const stays = (error) => { throw codeOf(error) === REQUEST_PENDING ? error : wrongChain(); };
  await change().catch(async (error) => {
    if (codeOf(error) !== UNKNOWN_CHAIN) stays(error);
    await addChain();
    // Some wallets switch to an added chain, others do not.
    if (!(await isOnChain())) await change().catch(stays);
  });
  if (!(await isOnChain())) throw wrongChain();
}

/** Adds the chain. The page has the node's URL only if node and explorer share a machine; the reader must be on it too. */
async function addChain() {
  const { rpc, currency: symbol, name } = panel.dataset;
  if (!rpc || !['127.0.0.1', 'localhost', '[::1]'].includes(location.hostname)) throw new Problem(format(TEXTS.noChain, chainId));
  await request('wallet_addEthereumChain', [{
    ...CHAIN,
    chainName: `${name} ${chainId}`,
    nativeCurrency: { name: symbol, symbol, decimals: 18 },
    rpcUrls: [rpc],
    blockExplorerUrls: [location.origin],
  }]);
}

// ---- result, below the form

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
  for (const note of form.querySelectorAll('.wrong')) note.remove();
  for (const field of form.querySelectorAll('[aria-invalid]')) {
    field.removeAttribute('aria-invalid');
    field.removeAttribute('aria-describedby');
  }
}

function showWrong(form, { field, problem }) {
  const input = field && form.elements.namedItem(field);
  const note = element('p', problem, { class: 'wrong' });
  if (!input) { show(form, note); return; }
  // Screen readers read the note with its field, which gets the focus.
  note.id = `${input.id}-wrong`;
  input.setAttribute('aria-invalid', 'true');
  input.setAttribute('aria-describedby', note.id);
  input.closest('.field').append(note);
  input.focus();
  show(form);
}

// ---- one call

/** Query with the current values of a form, and with the sender. */
function queryOf(form, from) {
  const query = new URLSearchParams(new FormData(form));
  query.set('from', from);
  return query.toString();
}

/** Removes a warning when the form changes: it was about the old values. */
function forgetWarning(form) {
  if (form.dataset.warned === undefined) return;
  delete form.dataset.warned;
  form.querySelector('button').textContent = form.dataset.label;
  show(form);
}

async function encode(form, query) {
  const page = new URL(form.action);
  const path = `${page.pathname.replace(/\/write$/, '/encode')}?${query}`;
  const response = await fetch(path, { headers: { accept: 'application/json' } }).catch(() => { throw new Problem(TEXTS.unreachable); });
  const report = await response.json().catch(() => ({ problem: format(TEXTS.answered, response.status) }));
  if (response.ok) return report;
  showWrong(form, report);
  return null;
}

async function send(form) {
  const button = form.querySelector('button');
  // A disabled button would lose the focus, so `aria-disabled` is used.
  if (button.getAttribute('aria-disabled') === 'true') return;
  clearWrong(form);
  const label = (form.dataset.label ??= button.textContent);
  const { warned } = form.dataset;
  delete form.dataset.warned;
  button.textContent = label;
  button.setAttribute('aria-disabled', 'true');
  try {
    show(form, element('p', TEXTS.waiting));
    if (!account) await connect();
    await switchChain();
    show(form, element('p', TEXTS.encoding));
    // The trial call and the transaction have the same sender, even if the wallet changes its account meanwhile.
    const from = account;
    const query = queryOf(form, from);
    const call = await encode(form, query);
    if (!call) return;
    if (call.warning && warned !== query) {
      show(form, element('p', format(TEXTS.undone, call.warning), { class: 'wrong' }));
      button.textContent = TEXTS.anyway;
      form.dataset.warned = query;
      return;
    }
    show(form, element('p', TEXTS.waiting));
    const { to, data, value } = call;
    // The request names the chain, so a wallet that switched meanwhile refuses it.
    const hash = await request('eth_sendTransaction', [{ from, to, data, value, ...CHAIN }]);
    follow(form, String(hash));
  } catch (error) {
    show(form, element('p', reason(error, TEXTS.refused), { class: 'wrong' }));
  } finally {
    button.removeAttribute('aria-disabled');
  }
}

// ---- status of the sent transaction

/** Maximum time of polling, and maximum number of consecutive polls without a result. */
const MAX_FOLLOW_MS = 300_000;
const MAX_FAILURES = 20;

const visibilityChanged = () => new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Shows the status of a transaction until it is final or polling ends. Polling pauses while the page is hidden. */
async function follow(form, hash) {
  if (!/^0x[0-9a-f]{64}$/i.test(hash)) { show(form, element('p', `${TEXTS.sent} ${hash}`)); return; }
  const link = element('a', `${hash.slice(0, 10)}…${hash.slice(-8)}`, { href: `/tx/${hash}` });
  const status = element('span', '', { class: 'tag' });
  const line = element('p', `${TEXTS.sent} `);
  line.append(link, ' ', status);
  show(form, line);
  let failures = 0;
  let followed = 0;
  for (let pause = 150; followed < MAX_FOLLOW_MS; pause = Math.min(pause * 1.5, 5_000)) {
    while (document.hidden) await visibilityChanged();
    const report = await fetchStatus(hash);
    // Another transaction was sent from this form.
    if (!line.isConnected) return;
    const isKnown = report && report.status !== 'unknown';
    if (isKnown && showStatus(status, line, report)) return;
    // The wallet's node may not have sent the transaction to the explorer's node yet.
    failures = isKnown ? 0 : failures + 1;
    if (failures === MAX_FAILURES) { line.append(` ${report ? TEXTS.unheard : TEXTS.quiet}`); return; }
    await sleep(pause);
    followed += pause;
  }
  line.append(` ${TEXTS.later}`);
}

/** Status, or null if the explorer does not respond. */
const fetchStatus = (hash) => fetch(`/tx/${hash}/status`, { signal: AbortSignal.timeout(10_000) })
  .then((response) => (response.ok ? response.json() : null))
  .catch(() => null);

/** Shows the status; returns true if it is final. Unchanged text is not set again, because screen readers announce changes. */
function showStatus(status, line, report) {
  const isReverted = report.succeeded === false;
  const text = isReverted ? `${report.status}, ${TEXTS.reverted}` : report.status;
  if (status.textContent !== text) {
    status.className = `tag is-${report.status}${isReverted ? ' bad' : ''}`;
    status.textContent = text;
  }
  if (report.reason) line.append(` ${report.reason}`);
  return ['certified', 'dropped', 'replaced'].includes(report.status);
}

// ---- the page

function start() {
  // Without a known chain id the wallet cannot be switched.
  if (!panel?.dataset.chainId) return;
  if (!window.ethereum?.request) { showMessage(TEXTS.none); return; }
  showMessage(TEXTS.offer);
  const button = document.getElementById('connect');
  button.hidden = false;
  button.addEventListener('click', () => connect().then(switchChain).catch((error) => showMessage(reason(error, TEXTS.unconnected))));
  window.ethereum.on?.('accountsChanged', (accounts) => {
    setAccounts(accounts);
    for (const form of document.querySelectorAll('form[data-function]')) forgetWarning(form);
  });
  // A connected wallet returns its accounts without asking its owner again.
  request('eth_accounts').then((accounts) => { if (accounts?.length) setAccounts(accounts); }, () => {});
  for (const form of document.querySelectorAll('form[data-function]')) {
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      send(form);
    });
    form.addEventListener('input', () => forgetWarning(form));
  }
}

// Some wallets are injected after the page has loaded.
if (window.ethereum) start();
else {
  let isStarted = false;
  const once = () => { if (!isStarted) { isStarted = true; start(); } };
  window.addEventListener('ethereum#initialized', once, { once: true });
  setTimeout(once, 1_000);
}

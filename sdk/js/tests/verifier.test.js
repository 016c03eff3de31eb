// Finality, accounts and storage with the package's verifier, in Node.js and in Chromium: valid proofs are accepted,
// and any changed byte is rejected.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { createPublicClient, http, keccak256, pad, toHex } from 'viem';
import { corniche as binary, withNetwork } from '../../../testnet/js/network.js';
import { until } from '../../../testnet/js/until.js';
import { missing, open } from '../lib/browser.js';
import { project } from '../lib/package.js';
import { tampered } from '../lib/tamper.js';
import { supply, token } from '../lib/tour.js';

/** Fields of a header that are not part of its hash. They are neither trusted nor used. */
const NOT_HASHED = ['hash', 'size', 'totalDifficulty', 'transactions', 'uncles'];

/** Starts a chain with a token, and fetches the node's true responses. */
async function told(t) {
  const { network, step } = await withNetwork(t, { validators: 4 });
  const [node] = network.nodes;
  const [owner, friend] = network.accounts;
  const installation = await project(t);
  const at = (path) => pathToFileURL(join(installation.installed, path)).href;
  const corniche = await import(at('dist/index.js'));
  const client = createPublicClient({ chain: network.chain, transport: http(node.rpc), pollingInterval: 20, cacheTime: 0 })
    .extend(corniche.cornicheActions());
  const genesis = readFileSync(join(network.directory, 'genesis.json'), 'utf8');
  const verifier = await corniche.Verifier.open(genesis);

  const wallet = node.wallet(owner);
  const deployed = await node.receipt(await wallet.deployContract({ ...token, args: ['Cornice', 'CRN', supply] }));
  const hash = await wallet.sendTransaction({ to: friend.address, value: 1n });
  const answered = await client.waitForCertificate({ hash });
  const ask = async (method, ...params) => (await node.call(method, ...params)).result;
  const block = (number) => ask('eth_getBlockByNumber', toHex(number), false);
  const headers = await Promise.all([0n, 1n].map((below) => block(answered.blockNumber - below)));
  const plain = headers.map((header) => Object.fromEntries(Object.entries(header).filter(([name]) => !NOT_HASHED.includes(name))));
  return { network, node, step, client, corniche, installation, genesis, verifier, owner, friend, ask, block, certificate: answered.raw, headers: plain, address: deployed.contractAddress };
}

test('the verifier', { timeout: 240_000 }, async (t) => {
  const { network, step, client, corniche, genesis, verifier, owner, friend, ask, block, certificate, headers, address, installation } = await told(t);
  const { VerificationError, Verifier } = corniche;
  const refuses = (check, what) => assert.throws(check, VerificationError, what);

  await step('knows its chain from the genesis', async () => {
    assert.equal(verifier.chainId, BigInt(network.chain.id));
    assert.deepEqual([verifier.validators, verifier.votes, verifier.quorum, verifier.currency], [4, 4, 3, 'CRN']);
    assert.equal(verifier.committeeHash, certificate.committeeHash);
    // A hash from another source: that of block 0.
    const { extraData: hash } = await block(0n);
    assert.equal(verifier.genesisHash, hash);
    assert.equal((await Verifier.open(genesis, { hash })).genesisHash, hash);
    await assert.rejects(Verifier.open(genesis, { hash: keccak256('0x') }), /genesis: expected hash/);
  });

  await step('refuses a genesis that was tampered with, once its hash is known', async () => {
    const { genesisHash: hash } = verifier;
    const file = JSON.parse(genesis);
    for (const change of [
      { ...file, chain_id: file.chain_id + 1 },
      { ...file, validators: file.validators.toReversed() },
      { ...file, validators: file.validators.slice(1), coin_shares: file.coin_shares.slice(1) },
    ]) {
      await assert.rejects(Verifier.open(JSON.stringify(change), { hash }), VerificationError);
    }
    // A key without a valid proof of possession, without an expected hash.
    const [first, second, ...rest] = file.validators;
    const stolen = { ...file, validators: [{ ...first, bls_proof: second.bls_proof }, second, ...rest] };
    await assert.rejects(Verifier.open(JSON.stringify(stolen)), /does not prove possession/);
    for (const text of ['', '{}', 'null', '[', genesis.slice(0, -20)]) await assert.rejects(Verifier.open(text), VerificationError);
  });

  await step('says of a block that it is final, and of the one before', async () => {
    const [newest, before] = headers;
    const one = verifier.final({ certificate, headers: [newest] });
    assert.deepEqual([one.hash, one.number], [certificate.blockHash, BigInt(certificate.blockNumber)]);
    assert.equal(one.stateRoot, newest.stateRoot);
    const other = verifier.final({ certificate, headers });
    assert.deepEqual([other.hash, other.number, other.timestamp], [newest.parentHash, one.number - 1n, BigInt(before.timestamp)]);
    refuses(() => verifier.final({ certificate, headers: [] }));
    refuses(() => verifier.final({ certificate, headers: [before] }));
    refuses(() => verifier.final({ certificate, headers: [newest, newest] }));
    refuses(() => verifier.final({ certificate, headers: headers.toReversed() }));
  });

  await step('refuses a certificate with any byte changed', () => {
    let lies = 0;
    for (const { path, lie } of tampered(certificate)) {
      refuses(() => verifier.final({ certificate: lie, headers: headers.slice(0, 1) }), path);
      lies += 1;
    }
    refuses(() => verifier.final({ certificate: { ...certificate, faultModel: 'crash' }, headers: headers.slice(0, 1) }));
    refuses(() => verifier.final({ certificate: { ...certificate, faultModel: 'none' }, headers: headers.slice(0, 1) }));
    assert.ok(lies > 32 + 32 + 48, `${lies}`);
    console.log(`${lies} certificates refused`);
  });

  await step('refuses headers with any byte changed', () => {
    let lies = 0;
    for (const { path, lie } of tampered(headers)) {
      if (path === '.1 missing') continue; // a valid proof: then the first header's block is final
      refuses(() => verifier.final({ certificate, headers: lie }), path);
      lies += 1;
    }
    assert.ok(lies > 2 * (5 * 32 + 256), `${lies}`);
    console.log(`${lies} pairs of headers refused`);
  });

  await step('refuses what the validators of another chain signed', async () => {
    const other = JSON.parse(genesis);
    other.validators = other.validators.toReversed();
    const stranger = await Verifier.open(JSON.stringify(other));
    assert.throws(() => stranger.final({ certificate, headers }), /certificate: expected committee/);
  });

  await step('shows what accounts and slots hold, and that there is none', async () => {
    const slots = [0, 1, 2, 3, 4, 5].map((slot) => toHex(slot));
    const proven = await client.verifyAccount({ verifier, address, slots });
    assert.equal(proven.codeHash, keccak256(await client.getCode({ address })));
    assert.equal(proven.nonce, 1n);
    for (const [index, { key, value }] of proven.storage.entries()) {
      assert.equal(key, pad(toHex(index)));
      assert.equal(value, await client.getStorageAt({ address, slot: key }));
    }
    assert.ok(proven.storage.some(({ value }) => BigInt(value) === supply), 'the supply is one of them');
    const rich = await client.verifyAccount({ verifier, address: owner.address });
    assert.equal(rich.balance, await client.getBalance({ address: owner.address, blockNumber: rich.header.number }));
    const nobody = await client.verifyAccount({ verifier, address: `0x${'77'.repeat(20)}`, slots: ['0x0'] });
    assert.deepEqual([nobody.balance, nobody.nonce, nobody.codeHash], [0n, 0n, pad('0x')]);
    assert.equal((await client.verifyAccount({ verifier, address: friend.address })).codeHash, keccak256('0x'));
  });

  await step('refuses a proof with any byte changed, and an answer to another question', async () => {
    const slots = ['0x0', pad('0x2'), '0x99'];
    const { stateRoot, hash } = await client.verifyBlock({ verifier });
    const proof = await ask('eth_getProof', address, slots, { blockHash: hash });
    verifier.account({ stateRoot, address, slots, proof });
    let lies = 0;
    for (const { path, lie } of tampered(proof)) {
      if (path.startsWith('.storageHash')) continue; // Ethereum's field, which is not verified here
      refuses(() => verifier.account({ stateRoot, address, slots, proof: lie }), path);
      lies += 1;
    }
    console.log(`${lies} proofs refused`);
    refuses(() => verifier.account({ stateRoot, address: friend.address, slots, proof }));
    refuses(() => verifier.account({ stateRoot, address, slots: slots.toReversed(), proof }));
    refuses(() => verifier.account({ stateRoot, address, slots: slots.slice(1), proof }));
    refuses(() => verifier.account({ stateRoot: keccak256('0x'), address, slots, proof }));
  });

  await step('asks a node that lies, and is not taken in', async () => {
    const lying = (lies) => ({ ...client, request: async (asked) => lies(asked, await client.request(asked)) });
    const balance = (asked, answer) => (asked.method === 'eth_getProof' ? { ...answer, balance: '0x1' } : answer);
    await assert.rejects(corniche.verifyAccount(lying(balance), { verifier, address: owner.address }), VerificationError);
    const older = async ({ method }, answer) => (method === 'eth_getBlockByNumber' ? block(1n) : answer);
    await assert.rejects(corniche.verifyBlock(lying(older), { verifier }), VerificationError);
    const nothing = ({ method }, answer) => (method === 'eth_getBlockByNumber' ? null : answer);
    await assert.rejects(corniche.verifyBlock(lying(nothing), { verifier }), VerificationError);
    const earlier = ({ method }, answer) => (method === 'corniche_getHeads' ? { ...answer, certified: { ...answer.certified, number: '0xffffff' } } : answer);
    assert.equal(await corniche.verifyBlock(lying(earlier), { verifier }), null);
    assert.equal(await corniche.verifyBlock(client, { verifier, blockNumber: 1_000_000n }), null);
    assert.equal((await corniche.verifyBlock(client, { verifier, blockNumber: 1n })).number, 1n);
  });

  await step('takes the module from wherever it is', async () => {
    const bytes = readFileSync(join(installation.installed, 'verifier.wasm'));
    for (const module of [bytes, await WebAssembly.compile(bytes), pathToFileURL(join(installation.installed, 'verifier.wasm'))]) {
      assert.equal((await Verifier.open(genesis, { module })).genesisHash, verifier.genesisHash);
    }
    const served = new Response(bytes, { headers: { 'content-type': 'application/octet-stream' } });
    assert.equal((await Verifier.open(genesis, { module: served })).genesisHash, verifier.genesisHash);
    await assert.rejects(Verifier.open(genesis, { module: new Response('', { status: 404 }) }), /HTTP status 404/);
  });
});

test('the verifier in Chromium', { timeout: 240_000, skip: missing }, async (t) => {
  const { node, step, installation, genesis, verifier, owner, certificate, headers } = await told(t);
  const { folder, installed } = installation;
  const file = (path) => readFileSync(join(installed, path));
  writeFileSync(join(folder, 'page.js'), `
    import { Verifier, cornicheActions, cornicheAt } from '@corniche/viem';
    import { createPublicClient, http } from 'viem';
    window.balance = async (rpc, genesis, address) => {
      const client = createPublicClient({ chain: await cornicheAt(rpc), transport: http() }).extend(cornicheActions());
      const { balance, header } = await client.verifyAccount({ verifier: await Verifier.open(genesis), address });
      return { balance: String(balance), block: header.number >= 1n };
    };`);
  const bundle = await build({ entryPoints: [join(folder, 'page.js')], bundle: true, write: false, format: 'esm', logLevel: 'error' });
  const page = await open(t, {
    '/': '<!doctype html><title>verifier</title>',
    '/package/dist/verifier.js': file('dist/verifier.js'),
    '/package/verifier.wasm': file('verifier.wasm'),
    '/tamper.js': readFileSync(new URL('../lib/tamper.js', import.meta.url)),
    '/bundle/page.js': bundle.outputFiles[0].text,
    '/verifier.wasm': file('verifier.wasm'),
  });

  await step('without a bundler: a true certificate verifies, and with any byte changed it is refused', async () => {
    const said = await page.evaluate(async ([genesis, certificate, headers]) => {
      const { VerificationError, Verifier } = await import('/package/dist/verifier.js');
      const { tampered } = await import('/tamper.js');
      const started = performance.now();
      const verifier = await Verifier.open(genesis);
      const opened = performance.now();
      const { hash, number } = verifier.final({ certificate, headers });
      const checked = performance.now();
      const believed = [];
      let lies = 0;
      const refused = (path, claim) => {
        lies += 1;
        try {
          verifier.final(claim);
          believed.push(path);
        } catch (error) {
          if (!(error instanceof VerificationError)) throw error;
        }
      };
      for (const { path, lie } of tampered(certificate)) refused(path, { certificate: lie, headers });
      for (const { path, lie } of tampered(headers)) if (path !== '.1 missing') refused(path, { certificate, headers: lie });
      return { chainId: String(verifier.chainId), hash, number: String(number), lies, believed, milliseconds: [opened - started, checked - opened] };
    }, [genesis, certificate, headers]);
    assert.deepEqual([said.chainId, said.hash], [String(verifier.chainId), headers[0].parentHash]);
    assert.deepEqual(said.believed, []);
    assert.ok(said.lies > 1_000);
    console.log(`${said.lies} lies refused in Chromium; opening took ${said.milliseconds[0].toFixed(0)} ms, a certificate ${said.milliseconds[1].toFixed(1)} ms`);
  });

  await step('in a bundle, with viem, a page asks a node and believes what is shown', async () => {
    await page.addScriptTag({ url: '/bundle/page.js', type: 'module' });
    const { balance, block } = await page.evaluate(([rpc, genesis, address]) => window.balance(rpc, genesis, address), [node.rpc, genesis, owner.address]);
    assert.deepEqual([balance, block], [String(await node.client.getBalance({ address: owner.address })), true]);
  });
});

// Each new committee is signed by the one before. One of four validators is away, so the committee changes too.
test('the verifier follows the committee over epochs', { timeout: 240_000 }, async (t) => {
  const staking = ['epoch_ms=3000', 'closing_ms=720', 'min_validators=3', 'unbonding_epochs=2'];
  const { network, step } = await withNetwork(t, { validators: 4, engine: 'autobahn', staking, explorer: true });
  const [node, , , away] = network.nodes;
  const { installed } = await project(t);
  const corniche = await import(pathToFileURL(join(installed, 'dist/index.js')).href);
  const client = createPublicClient({ chain: network.chain, transport: http(node.rpc), cacheTime: 0 }).extend(corniche.cornicheActions());
  const genesis = readFileSync(join(network.directory, 'genesis.json'), 'utf8');
  const ask = async (method, ...params) => (await node.call(method, ...params)).result;
  const pay = async () => node.receipt(await node.wallet(network.accounts[0]).sendTransaction({ to: network.accounts[1].address, value: 1n }));
  // Stake answers for two epochs of 3 s, so after 4 s nobody should trust the genesis.
  const open = (options) => corniche.Verifier.open(genesis, { acceptExpiredTrust: true, ...options });
  const seated = async () => (await ask('corniche_getValidators')).validators.length;

  await step('to a committee with other members', async () => {
    const { blockNumber } = await pay();
    away.kill();
    await until('a committee of three', async () => (await seated()) === 3, { deadlineMs: 60_000 });
    await pay();
    const verifier = await open();
    const header = await until('a certified block', () => client.verifyBlock({ verifier }), { deadlineMs: 60_000 });
    assert(verifier.epoch > 0n && header.number > blockNumber);
    // Certificates of earlier epochs are verified with their own committees.
    assert.equal((await client.verifyBlock({ verifier, blockNumber })).number, blockNumber);
    // But none of their blocks is the newest one.
    const heads = async () => {
      const { certified, ...rest } = await ask('corniche_getHeads');
      return { ...rest, certified: { ...certified, number: toHex(blockNumber) } };
    };
    const behind = { ...client, request: (request) => (request.method === 'corniche_getHeads' ? heads() : client.request(request)) };
    await assert.rejects(corniche.verifyBlock(behind, { verifier }), /the node is behind the epoch that this verifier knows/);
    const account = await client.verifyAccount({ verifier, address: network.accounts[1].address });
    assert.equal(account.balance, await client.getBalance({ address: network.accounts[1].address }));
  });

  await step('and refuses changes that nobody signed', async () => {
    // An epoch ends with a block, so there must be transactions.
    const changes = await until('a change to three members, and one that keeps them', async () => {
      await pay();
      const known = await ask('corniche_getEpochChanges', '0x0');
      return known.some(({ members }) => members?.length === 3) && known.some(({ members }) => members === null) && known;
    }, { deadlineMs: 60_000 });
    const refuses = async (forged, what) => {
      const verifier = await open();
      assert.throws(() => verifier.advance(forged), corniche.VerificationError, what);
    };
    const at = changes.findIndex(({ members }) => members);
    const changed = (part) => changes.map((change, index) => (index === at ? { ...change, ...part(change) } : change));
    await refuses(changed(({ members: [first, ...rest] }) => ({ members: [{ ...first, votes: first.votes + 1 }, ...rest] })), 'votes');
    await refuses(changed(() => ({ members: null })), 'no members');
    await refuses(changed(({ head }) => ({ head: `${head.slice(0, -2)}${head.endsWith('00') ? '01' : '00'}` })), 'head');
    await refuses(changed(({ certificate }) => ({ certificate: { ...certificate, signers: '0x00' } })), 'signers');
    await refuses(changes.slice(1), 'a gap');
  });

  await step('from the newest trust point of an earlier session', async () => {
    const kept = new Map();
    const storage = { getItem: (key) => kept.get(key) ?? null, setItem: async (key, text) => { kept.set(key, text); } };
    const first = await open({ storage });
    await client.verifyBlock({ verifier: first });
    assert.deepEqual([...kept], [[`corniche-trust:${first.genesisHash}`, first.trustPoint]]);
    const asked = [];
    const listening = { ...client, request: (request) => { asked.push(request); return client.request(request); } };
    const later = await open({ storage });
    assert.equal(later.pendingTrust, first.trustPoint);
    const header = await corniche.verifyBlock(listening, { verifier: later });
    assert.ok(later.epoch >= first.epoch && !corniche.isStale(header) && later.pendingTrust === null);
    assert.ok(asked.every(({ method, params }) => method !== 'corniche_getEpochChanges' || BigInt(params[0]) >= first.epoch - 1n), 'no earlier epoch is asked for');
    await later.forget();
    assert.equal((await open({ storage })).pendingTrust, null);
    // A text of another chain is not used, nor one that nobody could have stored.
    kept.set(`corniche-trust:${first.genesisHash}`, 'corniche-trust:1:7:3:0x00');
    assert.equal((await open({ storage })).pendingTrust, null);
  });

  await step('from the trust point that the explorer prints, and from no other one', async () => {
    const printed = async () => /data-copy="(corniche-trust:1:[^"]*)"/.exec(await (await fetch(`${network.explorer}/validators`)).text())?.[1];
    const trust = await until('the explorer to print a trust point', printed, { deadlineMs: 30_000 });
    const verifier = await open({ trust });
    await client.verifyBlock({ verifier });
    assert.ok(verifier.epoch > BigInt(trust.split(':')[3]));
    const other = `${trust.slice(0, -4)}${trust.endsWith('0000') ? '1111' : '0000'}`;
    await assert.rejects(client.verifyBlock({ verifier: await open({ trust: other }) }), /trust point: expected block 0x/);
    await assert.rejects(open({ trust: trust.replace(`:${network.chain.id}:`, ':7:') }), /trust point: expected corniche-trust:1:/);
    await assert.rejects(open({ trust: 'genesis' }), /copy it as a whole/);
  });

  await step('but not from a genesis that is too old', async () => {
    await assert.rejects(corniche.Verifier.open(genesis), /the genesis is \d+ s old, more than 4 s: validators of that time may have left with their stake/);
  });
});

// The committees of 1,000 days, of which all but the last nine are too old to be trusted.
test('the verifier follows 1,000 epochs in Chromium', { timeout: 600_000, skip: missing }, async (t) => {
  const { folder, installed } = await project(t);
  const made = join(folder, 'epochs.json');
  await promisify(execFile)(binary, ['bench', 'light', '--epochs', '1000', '--write', made]);
  const page = await open(t, {
    '/': '<!doctype html><title>verifier</title>',
    '/package/dist/verifier.js': readFileSync(join(installed, 'dist/verifier.js')),
    '/package/verifier.wasm': readFileSync(join(installed, 'verifier.wasm')),
    '/epochs.json': readFileSync(made),
  });
  const said = await page.evaluate(async () => {
    const { ConflictError, VerificationError, Verifier } = await import('/package/dist/verifier.js');
    const { genesis, same, new: changing } = await (await fetch('/epochs.json')).json();
    const accepting = () => Verifier.open(genesis, { acceptExpiredTrust: true });
    const old = await Verifier.open(genesis).catch((error) => error.message);
    const follow = async ({ changes, certificate, header }, believed) => {
      const verifier = await accepting();
      let milliseconds = 0;
      for (let at = 0; at < changes.length; at += 50) {
        const next = changes[at];
        const forged = {
          set: { ...next, members: changes[at + 2].members?.toReversed() ?? [] },
          thin: { ...next, certificate: { ...next.certificate, signers: '0x01' } },
          swapped: { ...next, header: changes[at + 2].header },
          head: { ...next, head: changes[at + 2].head },
        };
        for (const [name, change] of Object.entries(forged)) {
          if (name === 'set' && next.members === null) continue; // members that stay are not read
          try {
            verifier.advance([change]);
            believed.push(`${name} in epoch ${at}`);
          } catch (error) {
            if (!(error instanceof VerificationError)) throw error;
          }
        }
        const started = performance.now();
        verifier.advance(changes.slice(at, at + 50));
        milliseconds += performance.now() - started;
      }
      const { number } = verifier.final({ certificate, headers: [header] });
      return { epoch: Number(verifier.epoch), number: String(number), trustPoint: verifier.trustPoint, milliseconds: milliseconds / changes.length };
    };
    const believed = [];
    const followed = [await follow(same, believed), await follow(changing, believed)];
    // Both end epoch 0, signed by the same committee: the chain has split.
    const split = await accepting();
    split.advance(same.changes.slice(0, 3));
    const errors = [() => split.advance(changing.changes.slice(0, 1)), () => split.final({ certificate: same.certificate, headers: [same.header] })].map((run) => {
      try { run(); } catch (error) { return error instanceof ConflictError && error.certificates; }
    });
    const expected = [same.changes[0].certificate, changing.changes[0].certificate];
    return { old, followed, believed, errors, expected };
  });
  assert.match(said.old, /the genesis is \d+ s old, more than 806400 s: validators of that time may have left with their stake/);
  assert.deepEqual(said.believed, []);
  for (const { epoch, number, trustPoint } of said.followed) {
    assert.deepEqual([epoch, number], [1_000, '1000000001']);
    assert.match(trustPoint, /^corniche-trust:1:\d+:999:0x[0-9a-f]{64}$/);
  }
  assert.deepEqual(said.errors, [said.expected, said.expected]);
  const [same, changing] = said.followed.map(({ milliseconds }) => milliseconds.toFixed(1));
  console.log(`an epoch takes ${same} ms in Chromium with the same committee, ${changing} ms with a new one`);
});

// The stations that run inside hardhat. The test requests them one after the other.
const assert = require('node:assert/strict');
const hre = require('hardhat');
const { buildModule } = require('@nomicfoundation/hardhat-ignition/modules');

const { ethers, network } = hre;
const supply = ethers.parseEther('1000000');
const request = (method, ...params) => network.provider.send(method, params);
let owner, friend, stranger, other, token, multicall;

/** Checks that all clients share. */
const shared = import('../lib/traces.js');
/** A call of the token for Multicall3, which may fail. */
const part = (name, ...args) => ({ target: token.target, allowFailure: true, callData: token.interface.encodeFunctionData(name, args) });

const sendTokens = async (to, amount) => (await token.transfer(to.address, amount)).wait();

const stations = {
  async accounts() {
    [owner, friend, stranger, other] = await ethers.getSigners();
    assert.equal((await ethers.provider.getNetwork()).chainId, BigInt(await request('eth_chainId')));
    assert.ok((await ethers.provider.getBalance(owner)) > ethers.parseEther('1000'));
    for (const tag of ['latest', 'safe', 'finalized', 'pending', 'earliest']) {
      assert.equal(await ethers.provider.getTransactionCount(owner, tag), 0);
      assert.equal((await ethers.provider.getBlock(tag)).number, 0);
    }
  },

  async fees() {
    const { gasPrice, maxFeePerGas, maxPriorityFeePerGas } = await ethers.provider.getFeeData();
    assert.ok(maxFeePerGas > maxPriorityFeePerGas);
    assert.ok(gasPrice >= (await ethers.provider.getBlock('latest')).baseFeePerGas);
    assert.equal(await ethers.provider.estimateGas({ from: owner.address, to: friend.address, value: 1n }), 21_000n);
  },

  async 'transfers of types 0, 1 and 2'() {
    const accessList = [{ address: stranger.address, storageKeys: [ethers.ZeroHash] }];
    const gasPrice = 2n * BigInt(await request('eth_gasPrice'));
    for (const [type, fields, gas] of [
      [0, { gasPrice }, 21_000n],
      [1, { gasPrice, accessList }, 21_000n + 2_400n + 1_900n],
      [2, {}, 21_000n],
      [2, { accessList }, 21_000n + 2_400n + 1_900n],
    ]) {
      const before = await ethers.provider.getBalance(stranger);
      const sent = await owner.sendTransaction({ type, to: stranger.address, value: 7n, ...fields });
      const receipt = await sent.wait();
      assert.deepEqual([receipt.status, receipt.type, receipt.gasUsed], [1, type, gas]);
      assert.equal(await ethers.provider.getBalance(stranger), before + 7n);
    }
  },

  async deploy() {
    // The test deployed one token with `hardhat run`. Ignition deploys another, and calls it in a second step.
    const artifact = await hre.artifacts.readArtifact('Token');
    const module = buildModule('Tokens', (m) => {
      const deployed = m.contract('Token', artifact, ['Cornice', 'CRN', supply]);
      const moved = m.call(deployed, 'transfer', [friend.address, 1000n]);
      m.readEventArgument(moved, 'Transfer', 'value');
      return { deployed };
    });
    const config = { blockPollingInterval: 50, requiredConfirmations: 1 };
    ({ deployed: token } = await hre.ignition.deploy(module, { config }));
    assert.match(await ethers.provider.getCode(token), /^0xeff00000/);
    // Its journal is enough to resume: nothing is deployed twice.
    const again = await hre.ignition.deploy(module, { config });
    assert.equal(again.deployed.target, token.target);
  },

  async call() {
    assert.equal(await token.name(), 'Cornice');
    assert.equal(await token.balanceOf(friend), 1000n);
    assert.equal(await token.transfer.staticCall(friend, 1n), true);
  },

  async multicall() {
    const { MULTICALL3, MULTICALL3_SIGNATURES } = await shared;
    multicall = await ethers.getContractAt(MULTICALL3_SIGNATURES, MULTICALL3);
    const results = await multicall.aggregate3.staticCall([part('symbol'), part('transfer', friend.address, 1n), part('balanceOf', friend.address)]);
    assert.deepEqual(results.map(({ success }) => success), [true, false, true]);
    const [symbol, failure, balance] = results.map(({ returnData }) => returnData);
    assert.deepEqual([...token.interface.decodeFunctionResult('symbol', symbol)], ['CRN']);
    assert.equal(BigInt(balance), 1000n);
    assert.equal(token.interface.parseError(failure).name, 'ERC20InsufficientBalance');
    assert.equal(await multicall.getEthBalance(friend), await ethers.provider.getBalance(friend));
  },

  async 'access list'() {
    const call = await token.transfer.populateTransaction(other.address, 1n);
    const { accessList, gasUsed } = await request('eth_createAccessList', { from: owner.address, to: call.to, data: call.data }, 'latest');
    assert.deepEqual(accessList.map(({ address }) => ethers.getAddress(address)), [token.target]);
    const receipt = await (await owner.sendTransaction({ ...call, accessList })).wait();
    assert.deepEqual([receipt.status, receipt.gasUsed], [1, BigInt(gasUsed)]);
  },

  async 'simulated blocks'() {
    const by = (from, name, ...args) => ({ from: from.address, to: token.target, data: token.interface.encodeFunctionData(name, args) });
    const blockStateCalls = [{ calls: [by(owner, 'transfer', stranger.address, 3n)] }, { calls: [by(stranger, 'balanceOf', stranger.address)] }];
    const [{ calls: [moved] }, { calls: [asked] }] = await request('eth_simulateV1', { blockStateCalls }, 'latest');
    assert.deepEqual([moved.status, moved.logs.length, BigInt(asked.returnData)], ['0x1', 1, 3n]);
    assert.equal(await token.balanceOf(stranger), 0n, 'nothing happened');
  },

  async 'revert reason'() {
    const poor = token.connect(stranger);
    for (const attempt of [poor.transfer.staticCall, poor.transfer.estimateGas, poor.transfer]) {
      const error = await attempt(owner.address, 1n).then(assert.fail, (failure) => failure);
      const { name, args } = token.interface.parseError(error.data);
      assert.equal(name, 'ERC20InsufficientBalance');
      assert.deepEqual([...args], [stranger.address, 0n, 1n]);
    }
    const sent = await poor.transfer(owner.address, 1n, { gasLimit: 200_000n });
    await assert.rejects(sent.wait(), (error) => error.receipt.status === 0);
  },

  async refusals() {
    const to = friend.address;
    const all = await ethers.provider.getBalance(owner);
    await assert.rejects(owner.sendTransaction({ to, value: all, gasLimit: 21_000n }), /insufficient funds/);
    await assert.rejects(owner.sendTransaction({ to, nonce: 0 }), /nonce too low/);
    await assert.rejects(owner.sendTransaction({ to, gasLimit: 20_000n }), /intrinsic gas too low/);
  },

  async logs() {
    const receipt = await sendTokens(friend, 5n);
    const found = await token.queryFilter(token.filters.Transfer(null, friend.address), 0, 'latest');
    assert.deepEqual(found.map(({ args }) => args.value), [1000n, 5n]);
    assert.equal(found[1].transactionHash, receipt.hash);
  },

  async filters() {
    const blocks = await request('eth_newBlockFilter');
    const transfers = await request('eth_newFilter', { address: token.target });
    const { hash, blockHash } = await sendTokens(friend, 6n);
    assert.ok((await request('eth_getFilterChanges', blocks)).includes(blockHash));
    assert.deepEqual((await request('eth_getFilterChanges', transfers)).map(({ transactionHash }) => transactionHash), [hash]);
    assert.equal(await request('eth_uninstallFilter', transfers), true);
  },

  async 'replace and cancel'() {
    const first = await friend.getNonce('pending');
    const { maxFeePerGas, maxPriorityFeePerGas } = await ethers.provider.getFeeData();
    const fees = { maxFeePerGas, maxPriorityFeePerGas };
    const twice = { maxFeePerGas: maxFeePerGas * 2n, maxPriorityFeePerGas: maxPriorityFeePerGas * 2n };
    const send = (nonce, value, more) => friend.sendTransaction({ nonce, to: stranger.address, value, gasLimit: 21_000n, ...more });
    const waiting = [await send(first + 1, 1n, fees), await send(first + 2, 2n, fees)];
    await assert.rejects(send(first + 1, 3n, fees), /replacement transaction underpriced/);
    const replacement = await send(first + 1, 3n, twice);
    const cancellation = await friend.sendTransaction({ nonce: first + 2, to: friend.address, value: 0n, gasLimit: 21_000n, ...twice });
    const opening = await send(first, 4n, fees);
    for (const sent of [opening, replacement, cancellation]) assert.equal((await sent.wait()).status, 1);
    for (const { hash } of waiting) assert.equal(await request('eth_getTransactionReceipt', hash), null);
  },

  async trace() {
    const { CALL_TRACER, assertNestedTraced, assertRevertTraced, assertTransferTraced } = await shared;
    const traced = (hash) => request('debug_traceTransaction', hash, CALL_TRACER);
    const { abi } = await hre.artifacts.readArtifact('Token');
    const receipt = await sendTokens(friend, 9n);
    assertTransferTraced(await traced(receipt.hash), { from: owner.address, token: token.target, receipt });
    const sent = await token.connect(stranger).transfer(owner.address, 1n, { gasLimit: 200_000n });
    await assert.rejects(sent.wait());
    assertRevertTraced(await traced(sent.hash), { from: stranger.address, token: token.target, abi });
    const nested = await multicall.aggregate3([part('name'), part('transfer', owner.address, 1n)]);
    await nested.wait();
    assertNestedTraced(await traced(nested.hash), { from: owner.address, token: token.target, abi });
    // A call without a transaction.
    const { to, data } = await token.transfer.populateTransaction(owner.address, 1n);
    const tried = await request('debug_traceCall', { from: stranger.address, to, data }, 'latest', CALL_TRACER);
    assertRevertTraced(tried, { from: stranger.address, token: token.target, abi });
  },
};

process.on('message', async (station) => {
  try {
    await stations[station]();
    process.send({});
  } catch (error) {
    process.send({ error: error.stack });
  }
});

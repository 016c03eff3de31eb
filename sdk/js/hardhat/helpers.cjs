// Calls each of hardhat's network-helpers once: https://hardhat.org/hardhat-network-helpers.

const assert = require('node:assert/strict');
const hre = require('hardhat');
const helpers = require('@nomicfoundation/hardhat-network-helpers');

const stranger = '0x1111111111111111111111111111111111111111';
const nobody = '0x00000000000000000000000000000000000000aa';

async function main() {
  const { provider } = hre.ethers;
  const { time } = helpers;

  const height = await time.latestBlock();
  await helpers.mine(5, { interval: 60 });
  assert.equal(await time.latestBlock(), height + 5);
  await helpers.mineUpTo(height + 20);
  assert.equal(await time.latestBlock(), height + 20);
  const now = await time.latest();
  assert.equal(await time.increase(3600), now + 3600);
  assert.equal(await time.latest(), now + 3600);
  await time.increaseTo(now + 7200);
  assert.equal(await time.latest(), now + 7200);
  await time.setNextBlockTimestamp(now + 9000);
  await helpers.mine();
  assert.equal(await time.latest(), now + 9000);

  await helpers.setNextBlockBaseFeePerGas(3n * 10n ** 10n);
  await helpers.setPrevRandao(77);
  await helpers.mine();
  const { baseFeePerGas, mixHash } = await provider.send('eth_getBlockByNumber', ['latest', false]);
  assert.deepEqual([BigInt(baseFeePerGas), BigInt(mixHash)], [3n * 10n ** 10n, 77n]);
  await provider.send('evm_setAutomine', [false]);
  const [owner] = await hre.ethers.getSigners();
  const { hash } = await owner.sendTransaction({ to: nobody, value: 1n });
  await helpers.dropTransaction(hash);
  await provider.send('evm_setAutomine', [true]);
  assert.equal(await provider.getTransaction(hash), null);

  const snapshot = await helpers.takeSnapshot();
  await helpers.setBalance(stranger, 10n ** 18n);
  await helpers.setNonce(stranger, 7);
  await helpers.setStorageAt(nobody, 1, 2);
  assert.equal(await helpers.getStorageAt(nobody, 1), `0x${'2'.padStart(64, '0')}`);
  await helpers.impersonateAccount(stranger);
  const signer = await hre.ethers.getSigner(stranger);
  assert.equal((await (await signer.sendTransaction({ to: nobody, value: 5n })).wait()).status, 1);
  assert.equal(await provider.getTransactionCount(stranger), 8);
  await helpers.stopImpersonatingAccount(stranger);
  await snapshot.restore();
  assert.deepEqual([await provider.getBalance(stranger), await provider.getTransactionCount(stranger)], [0n, 0]);
  assert.equal(await time.latest(), now + 9000);

  // Their main use: each test starts from the state after its fixture.
  let times = 0;
  async function fixture() {
    times += 1;
    const [owner] = await hre.ethers.getSigners();
    await (await owner.sendTransaction({ to: nobody, value: 3n })).wait();
    return owner;
  }
  for (let round = 0; round < 3; round += 1) {
    const owner = await helpers.loadFixture(fixture);
    assert.equal(await provider.getBalance(nobody), 3n);
    await (await owner.sendTransaction({ to: nobody, value: 4n })).wait();
    assert.equal(await provider.getBalance(nobody), 7n);
  }
  assert.equal(times, 1);
  console.log('all of them helped');
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

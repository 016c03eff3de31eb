// A typical hardhat project without a compiler: the test provides the artifacts.
require('@nomicfoundation/hardhat-ignition-ethers');

const { RPC, KEYS, PROJECT } = process.env;

module.exports = {
  defaultNetwork: 'corniche',
  networks: { corniche: { url: RPC, accounts: KEYS === 'remote' ? KEYS : KEYS.split(',') } },
  paths: { artifacts: `${PROJECT}/artifacts`, cache: `${PROJECT}/cache`, ignition: `${PROJECT}/ignition` },
};

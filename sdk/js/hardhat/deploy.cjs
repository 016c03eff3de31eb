// The script for `hardhat run`: deploys a contract and prints its address.
const hre = require('hardhat');

async function main() {
  const token = await hre.ethers.deployContract('Token', ['Cornice', 'CRN', hre.ethers.parseEther('1000000')]);
  await token.waitForDeployment();
  console.log(token.target);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

// What `hardhat run` runs: a deployment, and the address for whoever started it.
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

// What 'hardhat node' needs to find.
module.exports = {};

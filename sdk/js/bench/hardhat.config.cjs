// 'hardhat node' requires this file.
module.exports = {};

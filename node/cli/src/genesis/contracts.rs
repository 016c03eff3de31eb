//! Predeployed contracts of every new genesis: wallets, libraries and tools expect them.

use corniche_types::{Address, Bytes, GenesisAccount};

/// Same address as on other chains.
pub const MULTICALL3: Address = Address::new([
    0xca, 0x11, 0xbd, 0xe0, 0x59, 0x77, 0xb3, 0x63, 0x11, 0x67, 0x02, 0x88, 0x62, 0xbe, 0x2a, 0x17, 0x39, 0x76, 0xca, 0x11,
]);

/// Address to which `cargo stylus deploy` sends code with a constructor.
pub const DEPLOYER: Address = Address::new([
    0xce, 0xcb, 0xa2, 0xf1, 0xdc, 0x23, 0x4f, 0x70, 0xdd, 0x89, 0xf2, 0x04, 0x10, 0x29, 0x80, 0x7f, 0x8d, 0x03, 0xa9, 0x90,
]);

/// Frozen binaries, built once from the sources next to them, so that every genesis has the same code.
const CODES: [(Address, &[u8]); 2] = [
    (MULTICALL3, include_bytes!("../../../../contracts/multicall3/multicall3.wasm")),
    (DEPLOYER, include_bytes!("../../../../contracts/deployer/deployer.wasm")),
];

/// Contracts by address. Their nonce is 1, as for any new contract.
pub fn contracts() -> impl Iterator<Item = (Address, GenesisAccount)> {
    let account = |code| GenesisAccount { nonce: 1, code: Bytes::from_static(code), ..GenesisAccount::default() };
    CODES.into_iter().map(move |(address, code)| (address, account(code)))
}

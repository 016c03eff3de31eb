//! Contracts that every new genesis holds, because wallets and libraries look for them there.

use corniche_types::{Address, Bytes, GenesisAccount};

/// Where the whole world has it.
pub const MULTICALL3: Address = Address::new([
    0xca, 0x11, 0xbd, 0xe0, 0x59, 0x77, 0xb3, 0x63, 0x11, 0x67, 0x02, 0x88, 0x62, 0xbe, 0x2a, 0x17, 0x39, 0x76, 0xca, 0x11,
]);

/// Frozen: made once from the source beside it, so that all who make a genesis make the same.
const MULTICALL3_CODE: &[u8] = include_bytes!("../../../../contracts/multicall3/multicall3.wasm");

/// The contracts by address. Like any other contract, each begins with nonce 1.
pub fn contracts() -> impl Iterator<Item = (Address, GenesisAccount)> {
    let code = Bytes::from_static(MULTICALL3_CODE);
    std::iter::once((MULTICALL3, GenesisAccount { nonce: 1, code, ..GenesisAccount::default() }))
}

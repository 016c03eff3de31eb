//! Errors of the staking contract as sentences.

use alloy_sol_types::SolInterface;
use corniche_contract_tool::in_whole_units;
use corniche_staking::interface::Staking::StakingErrors;
use corniche_types::U256;

/// Names of the keys by the numbers in errors.
const KEYS: [&str; 4] = ["consensus", "BLS", "network", "coin"];

/// Returns `None` if the data is not an error of the contract, or one of a function without a command.
pub fn sentence(data: &[u8], currency: &str) -> Option<String> {
    use StakingErrors::*;
    let amount = |wei| format!("{} {currency}", in_whole_units(wei));
    let key = |column: u8| KEYS.get(usize::from(column)).copied().unwrap_or("unknown");
    Some(match StakingErrors::abi_decode(data).ok()? {
        NotOwner(_) => {
            "only the owner may do this, and only the next owner may accept; `corniche validator status ID` prints both".into()
        }
        NotOperator(_) => "only the owner and the operator may do this; `corniche validator status ID` prints both".into(),
        Unknown(it) => format!("there is no validator {}; `corniche validator status` prints the committee", it.id),
        KeyUsed(it) => {
            format!("a key is registered already (keccak-256 {}); create others with `corniche keys new`", it.keyHash)
        }
        BadKey(it) => format!("the {} key is invalid; create keys with `corniche keys new`", key(it.column)),
        BadProof(it) => format!("the {} key is signed for another owner or chain; repeat the command", key(it.column)),
        FeeHasCode(it) => format!("{} is a contract; use an account without code as the fee address", it.fee),
        Full(_) => "too many validators are registered; try again when one has withdrawn its stake".into(),
        TooLittle(it) if it.limit == U256::ONE => "the amount must be above 0".into(),
        TooLittle(it) => format!("the stake must be at least {}; only `unbond ID all` may leave less", amount(it.limit)),
        TooMuch(it) => format!("only {} are bonded; `unbond ID all` takes everything", amount(it.limit)),
        BadEndpoints(_) => "expected at most 4 endpoints, 256 bytes in all; publish fewer".into(),
        OncePerEpoch(_) => {
            "the keys were replaced in this epoch already; the owner can do it again, the operator in the next epoch".into()
        }
        NothingFree(_) => {
            "no stake is free yet; `corniche validator status ID` prints what is unbonding and what is free".into()
        }
        EpochsNeverEnd(_) => "epochs never end on this chain (epoch_ms is 0), so its stake is fixed".into(),
        NoEvidence(_) | AlreadyConvicted(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_sol_types::SolError;
    use corniche_staking::interface::Staking;
    use corniche_types::B256;

    #[test]
    fn refusals_say_what_to_do() {
        let told = |error: &[u8]| sentence(error, "CRN").unwrap();
        let ten_thousand = U256::from(10_000_000_000_000_000_000_000u128);
        let too_little = Staking::TooLittle { limit: ten_thousand }.abi_encode();
        assert_eq!(told(&too_little), "the stake must be at least 10000 CRN; only `unbond ID all` may leave less");
        assert_eq!(told(&Staking::TooLittle { limit: U256::ONE }.abi_encode()), "the amount must be above 0");
        let too_much = Staking::TooMuch { limit: ten_thousand + U256::from(10_000_000_000_000_000u64) }.abi_encode();
        assert_eq!(told(&too_much), "only 10000.01 CRN are bonded; `unbond ID all` takes everything");
        let used = Staking::KeyUsed { keyHash: B256::repeat_byte(7) }.abi_encode();
        assert!(told(&used).contains(&B256::repeat_byte(7).to_string()));
        assert!(told(&Staking::BadProof { column: 1 }.abi_encode()).starts_with("the BLS key "));
        assert!(told(&Staking::BadKey { column: 9 }.abi_encode()).starts_with("the unknown key "));
        for other in [&b""[..], b"\x08\xc3\x79\xa0", &Staking::AlreadyConvicted {}.abi_encode()] {
            assert_eq!(sentence(other, "CRN"), None);
        }
    }
}

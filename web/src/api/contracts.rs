//! Contracts: their ABI, and properties of their code.

use super::{
    accounts::keyed,
    problem::Problem,
    request::{ApiRequest, Listing},
    schema::{ChecksumAddress, Json, object},
};
use crate::database::{DatabaseError, Place, Read, sql};
use alloy_primitives::B256;
use sqlx::any::AnyRow;

object! {
    /// A contract.
    Contract {
        /// Address of the contract.
        address: ChecksumAddress,
        /// Creator; null for genesis contracts.
        creator: Option<ChecksumAddress>,
        /// Block of its creation.
        block: Option<u64>,
        /// keccak-256 of its code, as deployed.
        code_hash: B256,
        /// Size in bytes of its code, as deployed.
        code_bytes: u64 = 23_456,
        /// Source of the ABI: `module` (embedded in the code), `uploaded`, or empty if there is none.
        abi_source: String = "module",
    }
}

object! {
    /// A contract with its ABI and properties of its code.
    ContractInFull {
        /// The contract.
        contract: Contract,
        /// Transaction that created it.
        transaction: Option<B256>,
        /// ABI in the format of Solidity's compiler.
        abi: Option<Json>,
        /// Properties of its code: sizes, imports, exports, sections; or the reason why the code cannot be read.
        facts: Option<Json> = {"module_bytes": 61_000, "compressed": true},
    }
}

/// `/api/v1/contracts`
pub async fn list(request: ApiRequest) -> Result<Listing<Contract>, Problem> {
    let (after, limit) = (request.cursor(&[20])?.unwrap_or_default(), request.limit()?);
    let text = "SELECT address, creator, transaction_place, code_hash, code_bytes, abi_source FROM contracts WHERE address > $1 \
                ORDER BY address LIMIT $2";
    let rows = sql(text).bind(after).bind(limit + 1).fetch_all(request.app.database.readers()).await?;
    keyed(rows, limit, &["address"], Contract::of)
}

/// `/api/v1/contracts/{address}`
pub async fn show(request: ApiRequest) -> Result<ContractInFull, Problem> {
    let address = request.address()?;
    let text = "SELECT c.address, c.creator, c.transaction_place, c.code_hash, c.code_bytes, c.abi_source, c.abi, c.facts, t.hash FROM \
                contracts c LEFT JOIN transactions t ON t.place = c.transaction_place WHERE c.address = $1";
    let row = sql(text).bind(address.to_vec()).fetch_optional(request.app.database.readers()).await?;
    let row = row.ok_or_else(|| Problem::missing(format!("no contract {address} in the indexed blocks")))?;
    let json = |text: String| serde_json::from_str(&text).ok().map(Json);
    Ok(ContractInFull {
        contract: Contract::of(&row)?,
        transaction: row.maybe_bytes("hash")?.and_then(|hash| B256::try_from(hash.as_slice()).ok()),
        abi: json(row.text("abi")?),
        facts: json(row.text("facts")?),
    })
}

impl Contract {
    fn of(row: &AnyRow) -> Result<Self, DatabaseError> {
        Ok(Self {
            address: ChecksumAddress(row.address("address")?),
            creator: row.maybe_address("creator")?.map(ChecksumAddress),
            block: row.maybe_int("transaction_place")?.map(|place| Place(place).block()),
            code_hash: row.hash("code_hash")?,
            code_bytes: row.number("code_bytes")?,
            abi_source: row.text("abi_source")?,
        })
    }
}

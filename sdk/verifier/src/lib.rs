//! Verification for clients that are not written in Rust: finality by a quorum's signature, and accounts and storage by
//! proofs. It is built as one WebAssembly module without imports, which runs in browsers and in any WebAssembly runtime
//! (`sdk/js/viem` loads it). The checks are those of `corniche-crypto` and `corniche-types`, as in a node.
//!
//! Requests and responses are JSON texts: [`Verifier::handle`] takes a [`Request`] and returns `{"ok": …}` or
//! `{"error": "…"}`. Their fields are those of JSON-RPC, so a node's response can be passed on unchanged. The node is
//! not trusted, and redundant fields of its responses are ignored.
//!
//! ```text
//! open       the text of the genesis   sets the committee; has to come first; the genesis is checked (proofs of
//! possession too)
//! advance    epoch changes             follows the committee over the ends of epochs
//! final      a certificate, headers    proves that the last header's block is final: certified block, its parent, …,
//! this one
//! account    state root, eth_getProof  proves the values of the account and the slots in that state
//! interface  a contract's code         returns the text of the ABI in it, unchecked
//! ```

pub mod code;
#[cfg(target_arch = "wasm32")]
mod wasm;

use alloy_rpc_types_eth::EIP1186AccountProofResponse;
use corniche_api::{EpochChange, EpochChangeFormatError, MAX_EPOCH_CHANGES, ProvenAccount, StorageKey};
use corniche_crypto::{CommitteeKeys, Committees, FinalBlock};
use corniche_types::{Address, B256, Bytes, Certificate, Genesis, Header, Votes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Most headers from a certified block down to the requested one, both included.
pub const MAX_HEADERS: usize = 4_097;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// Sets the chain by the text of its genesis file. Returns a [`Committee`]. Later requests refer to this chain.
    Open {
        /// The raw text of the file, because its numbers may exceed the precision of JSON libraries.
        genesis: String,
        /// The expected hash, if it is known.
        #[serde(default)]
        hash: Option<B256>,
    },
    /// Follows the committee over the ends of epochs. Returns the newest epoch that is known then.
    Advance {
        /// Response to `corniche_getEpochChanges`, from the newest known epoch on. Changes of earlier epochs are ignored.
        changes: Vec<EpochChange>,
    },
    /// Proves that a block is final. Returns its hash and its header, in which every field is then proven.
    Final {
        /// Response to `corniche_getCertificate`.
        certificate: corniche_api::Certificate,
        /// Headers of the certified block and its ancestors, one after the other, down to the block to prove.
        headers: Vec<Header>,
    },
    /// Proves the values of an account and its slots in a state. Returns a [`ProvenAccount`].
    #[serde(rename_all = "camelCase")]
    Account {
        /// State root from a final header.
        state_root: B256,
        /// Requested account.
        address: Address,
        /// Requested slots.
        #[serde(default)]
        slots: Vec<StorageKey>,
        /// Response to `eth_getProof`.
        proof: EIP1186AccountProofResponse,
    },
    /// Extracts the ABI that `sdk/abi` put into a contract's code. Returns its text, or null.
    Interface {
        /// Response to `eth_getCode`.
        code: Bytes,
    },
}

/// The committee of a chain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Committee {
    chain_id: String,
    currency: String,
    genesis_hash: B256,
    committee_hash: B256,
    validators: usize,
    votes: Votes,
    quorum: Votes,
}

/// A header and its hash.
#[derive(Debug, Serialize)]
struct FinalHeader<'h> {
    hash: B256,
    #[serde(flatten)]
    header: &'h Header,
}

/// Verifier of one chain.
#[derive(Debug, Default)]
pub struct Verifier {
    committees: Option<Committees>,
    /// The last valid certificate, because consecutive requests are often about the same block.
    newest: Option<(Certificate, FinalBlock)>,
}

impl Verifier {
    /// Answers one request. Work and memory are bounded by the length of the request. Every input gets a response.
    pub fn handle(&mut self, question: &[u8]) -> String {
        let answered = serde_json::from_slice(question).map_err(|error| format!("question: {error}"));
        match answered.and_then(|question| self.process(question)) {
            Ok(answer) => json!({ "ok": answer }),
            Err(problem) => json!({ "error": problem }),
        }
        .to_string()
    }

    fn process(&mut self, question: Request) -> Result<Value, String> {
        match question {
            Request::Open { genesis, hash } => self.open(&genesis, hash).map(|committee| json!(committee)),
            Request::Advance { changes } => self.advance(changes).map(|epoch| json!(format!("{epoch:#x}"))),
            Request::Final { certificate, headers } => self.check_final(certificate, &headers).map(|header| json!(header)),
            Request::Account { state_root, address, slots, proof } => {
                ProvenAccount::check(&state_root, address, &slots, &proof).map(|account| json!(account))
            }
            Request::Interface { code } => code::interface(&code).map(|text| json!(text)),
        }
    }

    fn open(&mut self, genesis: &str, hash: Option<B256>) -> Result<Committee, String> {
        // A failure must not keep the previous committee.
        *self = Self::default();
        let genesis = Genesis::from_json(genesis).map_err(|error| error.to_string())?;
        let genesis_hash = genesis.hash();
        if let Some(hash) = hash.filter(|hash| *hash != genesis_hash) {
            return Err(format!("genesis: expected hash {hash}, got {genesis_hash}"));
        }
        self.committees = Some(CommitteeKeys::from_genesis(&genesis).map_err(|error| error.to_string())?.into());
        let weights = genesis.weights();
        Ok(Committee {
            chain_id: format!("{:#x}", genesis.chain_id),
            committee_hash: genesis.committee_hash(),
            validators: weights.members(),
            votes: weights.total(),
            quorum: weights.quorum(),
            currency: genesis.currency,
            genesis_hash,
        })
    }

    fn advance(&mut self, changes: Vec<EpochChange>) -> Result<u64, String> {
        if changes.len() as u64 > MAX_EPOCH_CHANGES {
            return Err(format!("{} epoch changes, at most {MAX_EPOCH_CHANGES}", changes.len()));
        }
        let committees = self.committees.as_mut().ok_or("no genesis has been opened")?;
        for change in changes {
            if change.epoch >= committees.newest().epoch().0 {
                let change = change.try_into().map_err(|error: EpochChangeFormatError| error.to_string())?;
                committees.advance(&change).map_err(|error| error.to_string())?;
            }
        }
        Ok(committees.newest().epoch().0)
    }

    fn check_final<'h>(
        &mut self,
        certificate: corniche_api::Certificate,
        headers: &'h [Header],
    ) -> Result<FinalHeader<'h>, String> {
        if headers.len() > MAX_HEADERS {
            return Err(format!("{} headers, at most {MAX_HEADERS}", headers.len()));
        }
        let (last, between) = headers.split_last().ok_or("no header")?;
        let mut block = self.certified(certificate)?;
        let wrong = |error: corniche_crypto::HeaderError| error.to_string();
        for header in between {
            block = block.parent(header).map_err(wrong)?;
        }
        block.check(last).map_err(wrong)?;
        Ok(FinalHeader { hash: block.hash(), header: last })
    }

    fn certified(&mut self, certificate: corniche_api::Certificate) -> Result<FinalBlock, String> {
        let committees = self.committees.as_ref().ok_or("no genesis has been opened")?;
        let certificate = Certificate::try_from(certificate).map_err(|error| error.to_string())?;
        if let Some((_, block)) = self.newest.as_ref().filter(|(known, _)| *known == certificate) {
            return Ok(*block);
        }
        let block = committees.certified(&certificate).map_err(|error| error.to_string())?;
        self.newest = Some((certificate, block));
        Ok(block)
    }
}

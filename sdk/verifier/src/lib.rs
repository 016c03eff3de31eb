//! What a client of a Corniche chain checks for itself, for programs that are not written in Rust: finality by a quorum's signature,
//! accounts and storage by their proofs. Built as one WebAssembly module without imports, it runs in browsers and wherever WebAssembly
//! does (`sdk/js/viem` loads it); the code that decides is `corniche-crypto`'s and `corniche-types`', the same as in a node.
//!
//! A question and its answer are JSON texts: [`Verifier::answer`] takes a [`Question`] and gives `{"ok": …}` or `{"error": "…"}`. The words
//! in them are those of JSON-RPC, so that what a node answered can be handed over as it is. Nothing a node said is believed; what it
//! need not say is not looked at.
//!
//! ```text
//! open       the genesis' text         who signs; comes first, and is checked itself (proofs of possession included)
//! final      a certificate, headers    the last header's block is final: the certificate's block, its parent, …, this one
//! account    state root, eth_getProof  what the account and the slots hold in that state
//! interface  a contract's code         the text of the ABI in it, which nobody has checked
//! ```

pub mod code;
#[cfg(target_arch = "wasm32")]
mod wasm;

use alloy_rpc_types_eth::EIP1186AccountProofResponse;
use corniche_api::{ProvenAccount, StorageKey};
use corniche_crypto::{CommitteeKeys, FinalBlock};
use corniche_types::{Address, B256, Bytes, Certificate, Genesis, Header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most headers between a certificate's block and the one in question, both counted.
pub const MOST_HEADERS: usize = 4_097;

/// What can be asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Question {
    /// The genesis file's text. Answered with a [`Committee`]. All later answers are about its chain.
    Open {
        /// As it lies in the file: its numbers may be larger than what JSON libraries keep exactly.
        genesis: String,
        /// The hash that it must have, if one is known beforehand.
        #[serde(default)]
        hash: Option<B256>,
    },
    /// Is this block final? Answered with its hash and header, every field of which is then known to be right.
    Final {
        /// `corniche_getCertificate`'s answer.
        certificate: corniche_api::Certificate,
        /// The headers of the certificate's block and of its ancestors, one after the other, down to the block in question.
        headers: Vec<Header>,
    },
    /// What an account and its slots hold in a state. Answered with a [`ProvenAccount`].
    #[serde(rename_all = "camelCase")]
    Account {
        /// Of a header that is final.
        state_root: B256,
        /// The account asked for.
        address: Address,
        /// The slots asked for.
        #[serde(default)]
        slots: Vec<StorageKey>,
        /// `eth_getProof`'s answer.
        proof: EIP1186AccountProofResponse,
    },
    /// The ABI that a contract carries, as `sdk/abi` puts it there. Answered with the text, or with null.
    Interface {
        /// `eth_getCode`'s answer.
        code: Bytes,
    },
}

/// Who signs on a chain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Committee {
    chain_id: String,
    currency: String,
    genesis_hash: B256,
    committee_hash: B256,
    validators: usize,
    quorum: usize,
}

/// A header, and what it hashes to.
#[derive(Debug, Serialize)]
struct FinalHeader<'h> {
    hash: B256,
    #[serde(flatten)]
    header: &'h Header,
}

/// What is known of one chain.
#[derive(Debug, Default)]
pub struct Verifier {
    committee: Option<CommitteeKeys>,
    /// The last certificate that verified: whoever looks at one block often asks about it again.
    newest: Option<(Certificate, FinalBlock)>,
}

impl Verifier {
    /// Answers one question. Work and memory are bounded by the question's length; whatever it is, there is an answer.
    pub fn answer(&mut self, question: &[u8]) -> String {
        let answered = serde_json::from_slice(question).map_err(|error| format!("question: {error}"));
        match answered.and_then(|question| self.consider(question)) {
            Ok(answer) => json!({ "ok": answer }),
            Err(problem) => json!({ "error": problem }),
        }
        .to_string()
    }

    fn consider(&mut self, question: Question) -> Result<Value, String> {
        match question {
            Question::Open { genesis, hash } => self.open(&genesis, hash).map(|committee| json!(committee)),
            Question::Final { certificate, headers } => self.check_final(certificate, &headers).map(|header| json!(header)),
            Question::Account { state_root, address, slots, proof } => {
                ProvenAccount::check(&state_root, address, &slots, &proof).map(|account| json!(account))
            }
            Question::Interface { code } => code::interface(&code).map(|text| json!(text)),
        }
    }

    fn open(&mut self, genesis: &str, hash: Option<B256>) -> Result<Committee, String> {
        // A failure leaves no committee of before.
        *self = Self::default();
        let genesis = Genesis::from_json(genesis).map_err(|error| error.to_string())?;
        let genesis_hash = genesis.hash();
        if let Some(hash) = hash.filter(|hash| *hash != genesis_hash) {
            return Err(format!("genesis: it hashes to {genesis_hash}, expected {hash}"));
        }
        self.committee = Some(CommitteeKeys::from_genesis(&genesis).map_err(|error| error.to_string())?);
        let validators = genesis.validators.len();
        Ok(Committee {
            chain_id: format!("{:#x}", genesis.chain_id),
            committee_hash: genesis.committee_hash(),
            quorum: genesis.fault_model().quorum(validators),
            currency: genesis.currency,
            genesis_hash,
            validators,
        })
    }

    fn check_final<'h>(
        &mut self,
        certificate: corniche_api::Certificate,
        headers: &'h [Header],
    ) -> Result<FinalHeader<'h>, String> {
        if headers.len() > MOST_HEADERS {
            return Err(format!("{} headers, at most {MOST_HEADERS}", headers.len()));
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
        let committee = self.committee.as_ref().ok_or("no genesis has been opened")?;
        let certificate = Certificate::try_from(certificate).map_err(|error| error.to_string())?;
        if let Some((_, block)) = self.newest.as_ref().filter(|(known, _)| *known == certificate) {
            return Ok(*block);
        }
        let block = FinalBlock::certified(committee, &certificate).map_err(|error| format!("certificate: {error}"))?;
        self.newest = Some((certificate, block));
        Ok(block)
    }
}

//! Verification for clients that are not written in Rust: finality by a quorum's signature, and accounts and storage by
//! proofs. It is built as one WebAssembly module without imports, which runs in browsers and in any WebAssembly runtime
//! (`sdk/js/viem` loads it). The checks are those of `corniche-crypto` and `corniche-types`, as in a node.
//!
//! Requests and responses are JSON texts: [`Verifier::handle`] takes a [`Request`] and returns `{"ok": …}` or
//! `{"error": "…"}`. Their fields are those of JSON-RPC, so a node's response can be passed on unchanged. The node is
//! not trusted, and redundant fields of its responses are ignored. The module has no clock: `nowMs` is the caller's, in Unix
//! milliseconds.
//!
//! ```text
//! open       the text of the genesis   sets the committee; has to come first; the genesis is checked (proofs of
//! possession too)
//! trust      a trust point, its block  begins at the end of an epoch instead of the genesis
//! advance    epoch changes             follows the committee over the ends of epochs
//! final      a certificate, headers    proves that the last header's block is final: certified block, its parent, …,
//! this one
//! account    state root, eth_getProof  proves the values of the account and the slots in that state
//! interface  a contract's code         returns the text of the ABI in it, unchecked
//! ```
//!
//! If quorums have certified two chains, the error has `"conflict": [certificate, certificate]`, and so have all later ones.

pub mod code;
#[cfg(target_arch = "wasm32")]
mod wasm;

use alloy_rpc_types_eth::EIP1186AccountProofResponse;
use corniche_api::{
    CertificateError, CommitteeFormatError, CommitteeInfo, EpochChange, EpochChangeFormatError, MAX_EPOCH_CHANGES,
    ProvenAccount, StorageKey,
};
use corniche_crypto::{Conflict, GenesisKeyError, HeaderError, LightClient, LightError, TrustPointError};
use corniche_types::{Address, B256, Bytes, Genesis, GenesisError, Header, TimestampMs, Votes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Most headers from a certified block down to the requested one, both included.
pub const MAX_HEADERS: usize = 4_097;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// Sets the chain by the text of its genesis file. Returns a [`Committee`]. Later requests refer to this chain.
    #[serde(rename_all = "camelCase")]
    Open {
        /// The raw text of the file, because its numbers may exceed the precision of JSON libraries.
        genesis: String,
        /// The expected hash, if it is known.
        #[serde(default)]
        hash: Option<B256>,
        /// True to accept a genesis or trust point of any age.
        #[serde(default)]
        accept_expired_trust: bool,
    },
    /// Begins at the end of an epoch. Returns a [`Trusted`].
    #[serde(rename_all = "camelCase")]
    Trust {
        /// Text of the trust point.
        text: String,
        /// First entry of the response to `corniche_getEpochChanges` from the epoch in the point on.
        change: EpochChange,
        /// Response to `corniche_getCommittee` for the epoch after it.
        committee: CommitteeInfo,
        /// The current time.
        now_ms: u64,
    },
    /// Follows the committee over the ends of epochs. Returns a [`Trusted`].
    #[serde(rename_all = "camelCase")]
    Advance {
        /// Response to `corniche_getEpochChanges`, from the newest known epoch on. Changes of earlier epochs are ignored.
        changes: Vec<EpochChange>,
        /// The current time.
        now_ms: u64,
    },
    /// Proves that a block is final. Returns its hash and its header, in which every field is then proven.
    #[serde(rename_all = "camelCase")]
    Final {
        /// Response to `corniche_getCertificate`.
        certificate: corniche_api::Certificate,
        /// Headers of the certified block and its ancestors, one after the other, down to the block to prove.
        headers: Vec<Header>,
        /// The current time.
        now_ms: u64,
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

/// The newest epoch that is known, and its root.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Trusted {
    /// Its number, as `0x` and hex digits.
    epoch: String,
    /// End of the epoch before. A later verifier can begin there. Null for the genesis.
    trust_point: Option<String>,
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
    chain: Option<Chain>,
}

#[derive(Debug)]
struct Chain {
    genesis: Genesis,
    accept_expired_trust: bool,
    light: LightClient,
}

/// Why a request fails.
enum Failure {
    Invalid(String),
    Conflict(Box<Conflict>),
}

impl From<LightError> for Failure {
    fn from(error: LightError) -> Self {
        match error {
            LightError::Conflict(conflict) => Self::Conflict(conflict),
            other => Self::Invalid(other.to_string()),
        }
    }
}

/// Errors without certificates. A conversion of all errors at once would drop those of a conflict.
macro_rules! invalid {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Invalid(error.to_string())
            }
        })*
    };
}
invalid!(
    String,
    &str,
    GenesisError,
    GenesisKeyError,
    HeaderError,
    TrustPointError,
    CertificateError,
    CommitteeFormatError,
    EpochChangeFormatError
);

impl Failure {
    fn to_json(&self) -> Value {
        match self {
            Self::Invalid(problem) => json!({ "error": problem }),
            Self::Conflict(conflict) => {
                let certificates = conflict.certificates.each_ref().map(corniche_api::Certificate::from);
                json!({ "error": conflict.to_string(), "conflict": certificates })
            }
        }
    }
}

impl Verifier {
    /// Answers one request. Work and memory are bounded by the length of the request. Every input gets a response.
    pub fn handle(&mut self, question: &[u8]) -> String {
        let answered = serde_json::from_slice(question).map_err(|error| Failure::Invalid(format!("question: {error}")));
        match answered.and_then(|question| self.process(question)) {
            Ok(answer) => json!({ "ok": answer }),
            Err(failure) => failure.to_json(),
        }
        .to_string()
    }

    fn process(&mut self, question: Request) -> Result<Value, Failure> {
        Ok(match question {
            Request::Open { genesis, hash, accept_expired_trust } => json!(self.open(&genesis, hash, accept_expired_trust)?),
            Request::Trust { text, change, committee, now_ms } => {
                json!(self.chain()?.trust(&text, change, &committee, TimestampMs(now_ms))?)
            }
            Request::Advance { changes, now_ms } => json!(self.chain()?.advance(changes, TimestampMs(now_ms))?),
            Request::Final { certificate, headers, now_ms } => {
                json!(self.chain()?.check_final(certificate, &headers, TimestampMs(now_ms))?)
            }
            Request::Account { state_root, address, slots, proof } => {
                json!(ProvenAccount::check(&state_root, address, &slots, &proof)?)
            }
            Request::Interface { code } => json!(code::interface(&code)?),
        })
    }

    fn chain(&mut self) -> Result<&mut Chain, &'static str> {
        self.chain.as_mut().ok_or("no genesis has been opened")
    }

    fn open(&mut self, genesis: &str, hash: Option<B256>, accept_expired_trust: bool) -> Result<Committee, Failure> {
        // A failure must not keep the previous committee.
        *self = Self::default();
        let genesis = Genesis::from_json(genesis)?;
        let genesis_hash = genesis.hash();
        if let Some(hash) = hash.filter(|hash| *hash != genesis_hash) {
            return Err(format!("genesis: expected hash {hash}, got {genesis_hash}").into());
        }
        let weights = genesis.weights();
        let committee = Committee {
            chain_id: format!("{:#x}", genesis.chain_id),
            committee_hash: genesis.committee_hash(),
            validators: weights.members(),
            votes: weights.total(),
            quorum: weights.quorum(),
            currency: genesis.currency.clone(),
            genesis_hash,
        };
        let light = Chain::accepting(accept_expired_trust, LightClient::from_genesis(&genesis)?);
        self.chain = Some(Chain { genesis, accept_expired_trust, light });
        Ok(committee)
    }
}

impl Chain {
    fn accepting(expired_trust: bool, light: LightClient) -> LightClient {
        if expired_trust { light.accept_expired_trust() } else { light }
    }

    fn trust(
        &mut self,
        text: &str,
        change: EpochChange,
        committee: &CommitteeInfo,
        now: TimestampMs,
    ) -> Result<Trusted, Failure> {
        // The genesis may be too old, but a chain that has split stays so.
        if let Err(LightError::Conflict(conflict)) = self.light.check(now) {
            return Err(Failure::Conflict(conflict));
        }
        let point = text.parse().map_err(|error: String| format!("trust point: {error}"))?;
        let (change, members) = (change.try_into()?, committee.light_members()?);
        let light = LightClient::from_trust_point(&self.genesis, point, &change, &members)?;
        let light = Self::accepting(self.accept_expired_trust, light);
        light.check(now)?;
        self.light = light;
        Ok(self.trusted())
    }

    fn advance(&mut self, changes: Vec<EpochChange>, now: TimestampMs) -> Result<Trusted, Failure> {
        if changes.len() as u64 > MAX_EPOCH_CHANGES {
            return Err(format!("{} epoch changes, at most {MAX_EPOCH_CHANGES}", changes.len()).into());
        }
        self.light.check(now)?;
        for change in changes {
            self.light.advance(&change.try_into()?, now)?;
        }
        Ok(self.trusted())
    }

    fn trusted(&self) -> Trusted {
        let trust_point = self.light.trust_point().map(|point| point.to_string());
        Trusted { epoch: format!("{:#x}", self.light.committees().newest().epoch().0), trust_point }
    }

    fn check_final<'h>(
        &mut self,
        certificate: corniche_api::Certificate,
        headers: &'h [Header],
        now: TimestampMs,
    ) -> Result<FinalHeader<'h>, Failure> {
        if headers.len() > MAX_HEADERS {
            return Err(format!("{} headers, at most {MAX_HEADERS}", headers.len()).into());
        }
        let (last, between) = headers.split_last().ok_or("no header")?;
        let mut block = self.light.certified(&certificate.try_into()?, now)?;
        for header in between {
            block = block.parent(header)?;
        }
        block.check(last)?;
        Ok(FinalHeader { hash: block.hash(), header: last })
    }
}

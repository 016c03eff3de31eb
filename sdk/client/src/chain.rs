//! What this chain has and Ethereum has no word for: heads, certificates, what became of a transaction, how a block was ordered.

use crate::{
    client::{Client, Wait},
    error::ClientError,
};
use corniche_api::{
    Dag, DagRange, Execution, Heads, Ordering, Peers, Statistics, TransactionReport, TransactionStatus, Validators,
};
use corniche_crypto::CommitteeKeys;
use corniche_types::{B256, Certificate};
use serde_json::json;

impl Client {
    /// The newest executed block and the newest certified one.
    pub fn heads(&self) -> Result<Heads, ClientError> {
        self.ask("corniche_getHeads", json!([]))
    }

    /// Where a transaction stands or how it left, and since when. `None`: the node does not know of it.
    pub fn transaction_status(&self, hash: B256) -> Result<Option<TransactionReport>, ClientError> {
        self.ask("corniche_getTransactionStatus", json!([hash]))
    }

    /// The certificate that makes a block final, which may be a later block's. `None`: there is none yet. Nothing of it is checked here;
    /// [`Client::prove`] does that.
    pub fn certificate(&self, number: u64) -> Result<Option<Certificate>, ClientError> {
        let method = "corniche_getCertificate";
        let answer: Option<corniche_api::Certificate> = self.ask(method, json!([format!("{number:#x}")]))?;
        let nonsense = |problem: String| ClientError::Nonsense { method: method.into(), problem };
        answer
            .map(|answer| answer.try_into().map_err(|error: corniche_api::CertificateError| nonsense(error.to_string())))
            .transpose()
    }

    /// The committee: who orders and signs.
    pub fn validators(&self) -> Result<Validators, ClientError> {
        self.ask("corniche_getValidators", json!([]))
    }

    /// The node itself, and whom it is connected with.
    pub fn peers(&self) -> Result<Peers, ClientError> {
        self.ask("corniche_getPeers", json!([]))
    }

    /// How a block was ordered and what was skipped. `None`: there is no such block, or it is block 0.
    pub fn ordering(&self, number: u64) -> Result<Option<Ordering>, ClientError> {
        self.ask("corniche_getOrdering", json!([format!("{number:#x}")]))
    }

    /// What the node's execution did since it started.
    pub fn statistics(&self) -> Result<Statistics, ClientError> {
        self.ask("corniche_getStatistics", json!([]))
    }

    /// What running a block took on this node. `None`: there is no such block, or the node keeps nothing of it any more.
    pub fn execution(&self, number: u64) -> Result<Option<Execution>, ClientError> {
        self.ask("corniche_getExecution", json!([format!("{number:#x}")]))
    }

    /// What the ordering engine of this validator did in these rounds; a full node refuses.
    pub fn dag(&self, range: DagRange) -> Result<Dag, ClientError> {
        self.ask("corniche_getDag", range.params())
    }

    /// Waits until the transaction is in a block and that block is final, shown by a quorum's signature. Answers the block's number and
    /// the certificate; the receipt tells whether the transaction succeeded. One that was dropped or replaced will not come, which is an
    /// error at once: [`ClientError::Gone`].
    pub fn wait_final(&self, hash: B256, committee: &CommitteeKeys, wait: Wait) -> Result<(u64, Certificate), ClientError> {
        let looked = wait.until(|| match self.transaction_status(hash)?.map(|report| report.status) {
            Some(TransactionStatus::Certified { block_hash, block_number }) => {
                Ok(self.prove(block_number, block_hash, committee)?.map(|certificate| (block_number, certificate)))
            }
            Some(TransactionStatus::Dropped { reason }) => Err(ClientError::Gone { hash, reason }),
            Some(TransactionStatus::Replaced { by }) => Err(ClientError::Gone { hash, reason: format!("replaced by {by}") }),
            _ => Ok(None),
        })?;
        looked.ok_or(ClientError::Deadline { hash, waited: wait.deadline })
    }
}

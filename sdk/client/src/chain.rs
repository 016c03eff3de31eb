//! Methods that Ethereum does not have: heads, certificates, transaction status, ordering of blocks.

use crate::{
    client::{Client, Wait},
    error::ClientError,
};
use corniche_api::{
    Dag, DagRange, Execution, Heads, Ordering, Peers, Staking, Statistics, TransactionReport, TransactionStatus, Validators,
};
use corniche_crypto::LightClient;
use corniche_types::{B256, Certificate};
use serde_json::json;

impl Client {
    /// Returns the newest executed block and the newest certified one.
    pub fn heads(&self) -> Result<Heads, ClientError> {
        self.request("corniche_getHeads", json!([]))
    }

    /// Returns the status of a transaction with the times of its changes; `None` if the node does not know it.
    pub fn transaction_status(&self, hash: B256) -> Result<Option<TransactionReport>, ClientError> {
        self.request("corniche_getTransactionStatus", json!([hash]))
    }

    /// Returns the certificate that makes a block final, which may be that of a later block; `None` if there is none
    /// yet. The certificate is not checked; use [`Client::prove`] for that.
    pub fn certificate(&self, number: u64) -> Result<Option<Certificate>, ClientError> {
        let method = "corniche_getCertificate";
        let answer: Option<corniche_api::Certificate> = self.request(method, json!([format!("{number:#x}")]))?;
        let nonsense = |problem: String| ClientError::InvalidResponse { method: method.into(), problem };
        answer
            .map(|answer| answer.try_into().map_err(|error: corniche_api::CertificateError| nonsense(error.to_string())))
            .transpose()
    }

    /// Returns the committee, whose members order transactions and sign blocks.
    pub fn validators(&self) -> Result<Validators, ClientError> {
        self.request("corniche_getValidators", json!([]))
    }

    /// Returns the stake after the newest block: the running epoch, and all validators. `None` on a chain without staking.
    pub fn staking(&self) -> Result<Option<Staking>, ClientError> {
        self.request("corniche_getStaking", json!([]))
    }

    /// Returns the node's identity and its peers.
    pub fn peers(&self) -> Result<Peers, ClientError> {
        self.request("corniche_getPeers", json!([]))
    }

    /// Returns how a block was ordered and which transactions were skipped. `None` for block 0 and for unknown blocks.
    pub fn ordering(&self, number: u64) -> Result<Option<Ordering>, ClientError> {
        self.request("corniche_getOrdering", json!([format!("{number:#x}")]))
    }

    /// Returns the node's execution statistics since it started.
    pub fn statistics(&self) -> Result<Statistics, ClientError> {
        self.request("corniche_getStatistics", json!([]))
    }

    /// Returns the execution statistics of a block on this node. `None` for unknown blocks, and for old ones that the
    /// node has dropped.
    pub fn execution(&self, number: u64) -> Result<Option<Execution>, ClientError> {
        self.request("corniche_getExecution", json!([format!("{number:#x}")]))
    }

    /// Returns the validator's consensus DAG in these rounds. A full node rejects this.
    pub fn dag(&self, range: DagRange) -> Result<Dag, ClientError> {
        self.request("corniche_getDag", range.params())
    }

    /// Waits until the transaction is in a block and that block is final, proven by a quorum's signature. Returns the
    /// block's number and the certificate; the receipt shows whether the transaction succeeded.
    ///
    /// # Errors
    /// [`ClientError::Dropped`], without waiting any longer, if the transaction was dropped or replaced.
    pub fn wait_final(&self, hash: B256, light: &mut LightClient, wait: Wait) -> Result<(u64, Certificate), ClientError> {
        let looked = wait.until(|| match self.transaction_status(hash)?.map(|report| report.status) {
            Some(TransactionStatus::Certified { block_hash, block_number }) => {
                Ok(self.prove(block_number, block_hash, light)?.map(|certificate| (block_number, certificate)))
            }
            Some(TransactionStatus::Dropped { reason }) => Err(ClientError::Dropped { hash, reason }),
            Some(TransactionStatus::Replaced { by }) => Err(ClientError::Dropped { hash, reason: format!("replaced by {by}") }),
            _ => Ok(None),
        })?;
        looked.ok_or(ClientError::Deadline { hash, waited: wait.deadline })
    }
}

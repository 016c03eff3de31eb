//! Proof that a block is final, from the genesis alone: nothing the node says is believed.

use crate::{client::Client, error::ClientError};
use alloy_consensus::Header;
use alloy_rpc_types_eth::Block;
use corniche_crypto::{CommitteeKeys, FinalBlock};
use corniche_types::{B256, Certificate};
use serde_json::json;

/// The most blocks between the one in question and the certified one.
const LONGEST_CHAIN: u64 = 4_096;

impl Client {
    /// Checks that a quorum of the committee signed this block or a descendant of it. Returns the certificate, or `None`
    /// while there is none.
    ///
    /// The certificate is asked for and its signatures checked; then the headers from the certified block down to this one
    /// are hashed here, each naming its parent. An answer that does not fit is [`ClientError::Unproven`].
    pub fn prove(&self, number: u64, hash: B256, committee: &CommitteeKeys) -> Result<Option<Certificate>, ClientError> {
        let unproven = |problem: String| ClientError::Unproven { number, problem };
        let method = "corniche_getCertificate";
        let answer: Option<corniche_api::Certificate> = self.transport().request(method, json!([format!("{number:#x}")]))?;
        let Some(answer) = answer else { return Ok(None) };
        let certificate = Certificate::try_from(answer).map_err(|error| unproven(error.to_string()))?;
        let mut block = FinalBlock::certified(committee, &certificate).map_err(|error| unproven(error.to_string()))?;
        if block.number() < number || block.number() - number > LONGEST_CHAIN {
            return Err(unproven(format!("the certificate is for block {}", block.number())));
        }
        while block.number() > number {
            block = block.parent(&self.header(number, block.hash())?).map_err(|error| unproven(error.to_string()))?;
        }
        match block.hash() == hash {
            true => Ok(Some(certificate)),
            false => Err(unproven(format!("the certified block {number} is {}, not {hash}", block.hash()))),
        }
    }

    /// What the node answers when it is asked for this header. Whether it is the one, the caller finds out.
    fn header(&self, number: u64, hash: B256) -> Result<Header, ClientError> {
        let block: Option<Block<B256>> = self.transport().request("eth_getBlockByHash", json!([hash, false]))?;
        let missing = || ClientError::Unproven { number, problem: format!("the node does not have block {hash}") };
        Ok(block.ok_or_else(missing)?.header.inner)
    }
}

//! Proofs of finality from the genesis or a trust point alone. The node is not trusted.

use crate::{client::Client, error::ClientError};
use alloy_consensus::Header;
use alloy_rpc_types_eth::Block;
use corniche_api::{CommitteeInfo, EpochChange, HeadBlock, ProvenAccount, StorageKey};
use corniche_crypto::{LightClient, LightError};
use corniche_types::{Address, B256, Certificate, Epoch, Genesis, TimestampMs, TrustPoint, header_hash, is_stale_head};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most headers between a block and the certified descendant.
const MAX_HEADERS: u64 = 4_096;

/// Returns whether a header from [`Client::prove_account`] is more than 3 minutes old by this machine's clock. The node may then
/// withhold newer blocks, or the chain has stopped.
pub fn is_stale(head: &Header) -> bool {
    is_stale_head(TimestampMs(head.timestamp.saturating_mul(1_000)), now())
}

fn now() -> TimestampMs {
    TimestampMs(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
}

fn client_error(number: u64) -> impl Fn(LightError) -> ClientError {
    move |error| match error {
        LightError::Expired(expired) => ClientError::TrustExpired(expired),
        LightError::Conflict(conflict) => ClientError::Conflict(conflict),
        other => ClientError::Unproven { number, problem: other.to_string() },
    }
}

impl Client {
    /// Returns a light client that begins at a trust point instead of the genesis. Fetches the block in the point and the members of the
    /// next committee, which the hash in the point covers.
    ///
    /// # Errors
    /// [`ClientError::Unproven`] if the node does not have them, or if they are not those of the point.
    pub fn light_client(&self, genesis: &Genesis, point: TrustPoint) -> Result<LightClient, ClientError> {
        let unproven = |problem: String| ClientError::Unproven { number: 0, problem };
        let missing = || unproven(format!("the node does not know the end of epoch {}; ask another node", point.epoch));
        let change = self.epoch_changes(point.epoch)?.into_iter().next().ok_or_else(missing)?;
        let next = json!([format!("{:#x}", point.epoch.next().0)]);
        let committee: Option<CommitteeInfo> = self.request("corniche_getCommittee", next)?;
        let members = committee.ok_or_else(missing)?.light_members().map_err(|error| unproven(error.to_string()))?;
        LightClient::from_trust_point(genesis, point, &change, &members).map_err(|error| unproven(error.to_string()))
    }

    /// Returns the end of the epoch before this one, where light clients and new nodes can begin. `None` in epoch 0, and if the node
    /// does not know it. Not verified: the node is trusted for it.
    pub fn trust_point(&self, running: Epoch) -> Result<Option<TrustPoint>, ClientError> {
        let Some(epoch) = running.0.checked_sub(1).map(Epoch) else { return Ok(None) };
        let Some(change) = self.epoch_changes(epoch)?.into_iter().next() else { return Ok(None) };
        Ok(Some(TrustPoint { chain_id: self.chain_id()?, epoch, hash: header_hash(&change.header) }))
    }

    /// Checks that a quorum of the committee signed this block or a descendant of it. Returns the certificate, or
    /// `None` if none exists yet.
    ///
    /// Fetches the certificate and checks its signatures, after following the committees to its epoch. Then hashes the headers from the
    /// certified block down to this one, each of which must contain its parent's hash.
    ///
    /// # Errors
    /// [`ClientError::Unproven`] if a response fails a check, [`ClientError::TrustExpired`] if the newest known epoch is too old, and
    /// [`ClientError::Conflict`] once quorums have certified two chains.
    pub fn prove(&self, number: u64, hash: B256, light: &mut LightClient) -> Result<Option<Certificate>, ClientError> {
        let unproven = |problem: String| ClientError::Unproven { number, problem };
        let Some(certificate) = self.certificate(number)? else { return Ok(None) };
        self.follow(light, certificate.epoch)?;
        let mut block = light.certified(&certificate, now()).map_err(client_error(number))?;
        if block.number() < number || block.number() - number > MAX_HEADERS {
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

    /// Follows the committees up to an epoch: each one is signed by the one before. Returns at once if the epoch is known.
    ///
    /// # Errors
    /// Those of [`Client::prove`]. [`ClientError::Unproven`] also if the node does not know the committees.
    pub fn follow(&self, light: &mut LightClient, epoch: Epoch) -> Result<(), ClientError> {
        light.check(now()).map_err(client_error(0))?;
        while light.committees().newest().epoch() < epoch {
            let known = light.committees().newest().epoch().0;
            let unproven = |problem: String| ClientError::Unproven { number: 0, problem };
            for change in self.epoch_changes(Epoch(known))? {
                light.advance(&change, now()).map_err(client_error(change.header.number))?;
            }
            // Also if the node sent changes of earlier epochs only, which are not refused.
            if light.committees().newest().epoch().0 == known {
                return Err(unproven(format!("the node does not know the committee after epoch {known}")));
            }
        }
        Ok(())
    }

    /// Returns the changes of committees at the ends of epochs from this one on, as many as the node sends at once. Not verified.
    ///
    /// # Errors
    /// [`ClientError::Unproven`] if a response is malformed.
    pub fn epoch_changes(&self, from: Epoch) -> Result<Vec<corniche_types::EpochChange>, ClientError> {
        let changes: Vec<EpochChange> = self.request("corniche_getEpochChanges", json!([format!("{:#x}", from.0)]))?;
        let parse = |change: EpochChange| {
            change.try_into().map_err(|error: corniche_api::EpochChangeFormatError| ClientError::Unproven {
                number: 0,
                problem: error.to_string(),
            })
        };
        changes.into_iter().map(parse).collect()
    }

    /// Returns an account and its slots at the newest certified block, with proof: the block is final as in
    /// [`Client::prove`], and the values are proven by paths in the state tree.
    pub fn prove_account(
        &self,
        address: Address,
        slots: &[B256],
        light: &mut LightClient,
    ) -> Result<(ProvenAccount, Header), ClientError> {
        let HeadBlock { number, hash, .. } = self.heads()?.certified;
        let unproven = |problem: String| ClientError::Unproven { number, problem };
        // Block 0 has no certificate; it is known from the genesis.
        self.prove(number, hash, light)?.ok_or_else(|| unproven("it has no certificate".into()))?;
        if light.committees().newest_after().is_some_and(|known| number < known) {
            return Err(unproven("the node is behind the epoch that this client knows; try again, or ask another node".into()));
        }
        let header = self.header(number, hash)?;
        if header_hash(&header) != hash {
            return Err(unproven(format!("expected block {hash}, got a header with hash {}", header_hash(&header))));
        }
        let slots: Vec<StorageKey> = slots.iter().copied().map(StorageKey).collect();
        let answer = self.request("eth_getProof", json!([address, slots, { "blockHash": hash }]))?;
        let account = ProvenAccount::check(&header.state_root, address, &slots, &answer).map_err(unproven)?;
        Ok((account, header))
    }

    /// Returns the node's response for this header. The caller must check its hash.
    fn header(&self, number: u64, hash: B256) -> Result<Header, ClientError> {
        let block: Option<Block<B256>> = self.transport().request("eth_getBlockByHash", json!([hash, false]))?;
        let missing = || ClientError::Unproven { number, problem: format!("the node does not have block {hash}") };
        Ok(block.ok_or_else(missing)?.header.inner)
    }
}

//! Fee suggestions and history.

use crate::backend::ChainBlock;
use crate::node::Node;
use alloy_eips::BlockId;
use alloy_rpc_types_eth::FeeHistory;
use corniche_api::{Reason, RpcError};
use corniche_types::Height;

/// Number of blocks that a suggestion looks at, and the percentile of their tips that it returns.
const TIP_BLOCKS: u64 = 20;
const TIP_PERCENTILE: usize = 60;

/// Tip paid in recent blocks, in wei per gas, at least the configured minimum.
pub(crate) fn suggested_tip(node: &Node) -> u64 {
    let head = node.backend.head();
    if let Some(tip) = node.tip.get(head) {
        return tip;
    }
    let blocks = (head.0.saturating_sub(TIP_BLOCKS - 1)..=head.0).filter_map(|height| node.backend.block(Height(height)));
    let mut tips: Vec<u128> = blocks.flat_map(|block| paid_tips(&block).map(|(tip, _)| tip).collect::<Vec<_>>()).collect();
    tips.sort_unstable();
    let percentile_tip = tips.get(tips.len().saturating_sub(1) * TIP_PERCENTILE / 100).copied().unwrap_or(0);
    let tip = u64::try_from(percentile_tip).unwrap_or(u64::MAX).max(node.config.minimum_tip);
    node.tip.set(head, tip);
    tip
}

/// Price for wallets that use only one: base fee plus one eighth, plus the tip. The base fee moves by at most
/// 2 % per second.
pub(crate) fn gas_price(node: &Node) -> u64 {
    let base_fee = node.backend.next_base_fee();
    base_fee.saturating_add(base_fee / 8).saturating_add(suggested_tip(node))
}

/// Yields (tip per gas, gas used) of each transaction.
fn paid_tips(block: &ChainBlock) -> impl Iterator<Item = (u128, u64)> {
    let base_fee = u128::from(block.header.base_fee_per_gas.unwrap_or_default());
    block.receipts.iter().map(move |receipt| (receipt.effective_gas_price.saturating_sub(base_fee), receipt.gas_used))
}

/// `eth_feeHistory`: up to `count` blocks ending at `newest`. Without blocks that this node does not have, as in geth: then the
/// response begins later.
pub(crate) fn history(node: &Node, count: usize, newest: BlockId, percentiles: Option<&[f64]>) -> Result<FeeHistory, RpcError> {
    if let Some(percentiles) = percentiles {
        check_percentiles(percentiles)?;
    }
    let newest = node.kept_height(newest)?.ok_or_else(|| Reason::RequestBeyondHead.error())?;
    let first = match node.backend.first_block().0 {
        first if first > 1 && newest.0 > 0 => first,
        _ => 0,
    };
    let count = (count as u64).min(node.config.max_fee_history).min((newest.0 + 1).saturating_sub(first));
    // The list of base fees includes the next block's, so it is one longer than the blocks and exists even
    // for no blocks.
    let oldest = newest.0 + 1 - count;
    let mut history = FeeHistory { oldest_block: oldest, reward: percentiles.map(|_| Vec::new()), ..FeeHistory::default() };
    for height in oldest..=newest.0 {
        let block = node.block_at(Height(height))?.ok_or_else(|| Reason::HeaderNotFound.error())?;
        history.base_fee_per_gas.push(block.header.base_fee_per_gas.unwrap_or_default().into());
        history.gas_used_ratio.push(block.header.gas_used as f64 / block.header.gas_limit.max(1) as f64);
        if let (Some(rewards), Some(percentiles)) = (&mut history.reward, percentiles) {
            rewards.push(rewards_at(&block, percentiles));
        }
    }
    let next = match node.backend.header(newest.next()) {
        Some(header) => header.base_fee_per_gas.unwrap_or_default(),
        None => {
            node.ensure_kept(newest.next())?;
            node.backend.next_base_fee()
        }
    };
    history.base_fee_per_gas.push(next.into());
    Ok(history)
}

fn check_percentiles(percentiles: &[f64]) -> Result<(), RpcError> {
    if percentiles.len() > 100 {
        return Err(RpcError::invalid_params("over the query limit 100 of reward percentiles"));
    }
    if let Some(bad) = percentiles.iter().find(|percentile| !(0.0..=100.0).contains(*percentile)) {
        return Err(RpcError::invalid_params(format!("invalid reward percentile: {bad}")));
    }
    if percentiles.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(RpcError::invalid_params("invalid reward percentile: not ascending"));
    }
    Ok(())
}

/// For each percentile: the tip below which that share of the block's gas was used.
fn rewards_at(block: &ChainBlock, percentiles: &[f64]) -> Vec<u128> {
    let mut paid: Vec<(u128, u64)> = paid_tips(block).collect();
    paid.sort_unstable();
    let mut rewards = Vec::with_capacity(percentiles.len());
    let mut paid = paid.into_iter();
    let Some((mut tip, mut gas)) = paid.next() else { return vec![0; percentiles.len()] };
    for percentile in percentiles {
        let threshold = (block.header.gas_used as f64 * percentile / 100.0) as u64;
        while gas < threshold {
            let Some((next_tip, more)) = paid.next() else { break };
            (tip, gas) = (next_tip, gas.saturating_add(more));
        }
        rewards.push(tip);
    }
    rewards
}

//! Transactions from users and peers.

use super::Pipeline;
use crate::execution::VerifiedTransaction;
use crate::io::{NodeKey, Output};
use corniche_types::TimestampMs;

impl Pipeline {
    pub(super) fn submit(
        &mut self,
        now: TimestampMs,
        transaction: VerifiedTransaction,
        from: Option<NodeKey>,
        reply: Option<u64>,
    ) {
        let hash = transaction.hash();
        let responsibility = self.responsibility(now, &transaction.sender(), from);
        let result = self.pool.admit_as(transaction.clone(), responsibility, &self.view(), self.base_fee(), now);
        if result.is_ok() {
            self.attest(now, &transaction, from);
            self.out.push_back(Output::Pending { transaction: transaction.clone(), from_user: from.is_none() });
            if responsibility.is_responsible {
                self.forward(&transaction);
            } else {
                self.forward_copy(now, &transaction);
            }
        }
        if let Some(reply) = reply {
            self.out.push_back(Output::Submitted { reply, result: result.map(|()| hash) });
        }
    }
}

//! At least one valid request for each method.

use super::{ECHO, FUNDED, Fixture, log, transfer};
use corniche_api::Method;
use serde_json::{Value, json};

/// Mines a small chain and returns requests about it that must all succeed. Block 1 has a transfer and logs;
/// block 2, the head, has another transfer; one transaction is pending. The DAG is [`super::dag::sample`].
/// All methods occur, except the two for subscriptions.
pub async fn examples(fixture: &Fixture) -> Vec<(Method, Value)> {
    let block = fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1, 2]), log(ECHO, &[3])]), (transfer(1), vec![])]);
    let second = fixture.chain.mine(&[(transfer(2), vec![])]);
    fixture.chain.finalize(1);
    let pending = fixture.client.result("eth_sendRawTransaction", json!([transfer(3)])).await;
    let (hash, transaction) = (block.hash, block.receipts[0].transaction_hash);
    let filter = fixture.client.result("eth_newFilter", json!([{"fromBlock": "0x0"}])).await;
    let blocks = fixture.client.result("eth_newBlockFilter", json!([])).await;
    let pool = fixture.client.result("eth_newPendingTransactionFilter", json!([])).await;
    fixture.chain.trace(super::dag::sample());
    fixture.chain.begin_epoch(1);
    let nothing = json!([]);
    let unknown = alloy_primitives::B256::repeat_byte(0xdd);
    let mut all = vec![
        (Method::EthGetBalance, json!([FUNDED, "latest"])),
        (Method::EthGetTransactionCount, json!([FUNDED, "pending"])),
        (Method::EthGetCode, json!([ECHO, "0x1"])),
        (Method::EthGetCode, json!([FUNDED, "latest"])),
        (Method::EthGetStorageAt, json!([ECHO, "0x3", "latest"])),
        (Method::EthGetProof, json!([ECHO, ["0x3", "0x0"], "latest"])),
        (Method::EthGetStorageValues, json!([{ECHO.to_string(): ["0x3", "0x0"]}, "latest"])),
        (Method::EthCall, json!([{"to": ECHO, "data": "0x01020304"}, "latest"])),
        (Method::EthEstimateGas, json!([{"from": FUNDED, "to": unknown.to_string()[..42], "value": "0x1"}])),
        (Method::EthFeeHistory, json!(["0x2", "latest", [10.0, 50.0]])),
        (Method::EthFeeHistory, json!([2, "0x1"])),
        (Method::EthSendRawTransaction, json!([transfer(4)])),
        (Method::EthGetTransactionByHash, json!([transaction])),
        (Method::EthGetTransactionByHash, json!([pending])),
        (Method::EthGetTransactionByHash, json!([unknown])),
        (Method::EthGetTransactionByBlockHashAndIndex, json!([hash, "0x0"])),
        (Method::EthGetTransactionByBlockNumberAndIndex, json!(["0x1", "0x1"])),
        (Method::EthGetTransactionByBlockNumberAndIndex, json!(["0x1", "0x2"])),
        (Method::EthGetRawTransactionByHash, json!([transaction])),
        (Method::EthGetRawTransactionByHash, json!([pending])),
        (Method::EthGetRawTransactionByHash, json!([unknown])),
        (Method::EthGetRawTransactionByBlockHashAndIndex, json!([hash, "0x0"])),
        (Method::EthGetRawTransactionByBlockNumberAndIndex, json!(["0x1", "0x1"])),
        (Method::EthGetRawTransactionByBlockNumberAndIndex, json!(["0x1", "0x2"])),
        (Method::EthGetTransactionReceipt, json!([transaction])),
        (Method::EthGetTransactionReceipt, json!([unknown])),
        (Method::EthGetBlockByHash, json!([hash, false])),
        (Method::EthGetBlockByHash, json!([unknown, false])),
        (Method::EthGetBlockReceipts, json!(["0x1"])),
        (Method::EthGetBlockReceipts, json!([hash])),
        (Method::EthGetBlockTransactionCountByNumber, json!(["0x1"])),
        (Method::EthGetBlockTransactionCountByHash, json!([hash])),
        (Method::EthGetUncleCountByBlockNumber, json!(["latest"])),
        (Method::EthGetUncleCountByBlockHash, json!([hash])),
        (Method::EthGetUncleByBlockNumberAndIndex, json!(["latest", "0x0"])),
        (Method::EthGetUncleByBlockHashAndIndex, json!([hash, "0x0"])),
        (Method::EthGetLogs, json!([{"fromBlock": "earliest", "toBlock": "latest"}])),
        (Method::EthGetLogs, json!([{"blockHash": hash}])),
        (Method::EthNewFilter, json!([{"address": ECHO, "topics": [null, [unknown]]}])),
        (Method::EthNewBlockFilter, nothing.clone()),
        (Method::EthNewPendingTransactionFilter, nothing.clone()),
        (Method::EthGetFilterChanges, json!([filter])),
        (Method::EthGetFilterChanges, json!([blocks])),
        (Method::EthGetFilterChanges, json!([pool])),
        (Method::EthGetFilterLogs, json!([filter])),
        (Method::EthUninstallFilter, json!([filter])),
        (Method::TxpoolContentFrom, json!([FUNDED])),
        (Method::DebugGetRawHeader, json!(["0x1"])),
        (Method::DebugGetRawBlock, json!(["0x1"])),
        (Method::DebugGetRawReceipts, json!(["0x1"])),
        (Method::DebugGetRawTransaction, json!([transaction])),
        (Method::CornicheGetOrdering, json!(["0x1"])),
        (Method::CornicheGetOrdering, json!(["0x0"])),
        (Method::CornicheGetEpochChanges, json!(["0x0"])),
        (Method::CornicheGetEpochChanges, json!(["0x1", "0x2"])),
        (Method::CornicheGetEpoch, json!(["0x0"])),
        (Method::CornicheGetEpoch, json!(["latest"])),
        (Method::CornicheGetEpoch, json!(["0x7"])),
        (Method::CornicheGetCommittee, json!(["0x0"])),
        (Method::CornicheGetCommittee, json!(["latest"])),
        (Method::CornicheGetCommittee, json!(["0x7"])),
        (Method::CornicheGetOffences, json!(["0x0"])),
        (Method::CornicheGetCertificate, json!(["0x1"])),
        (Method::CornicheGetCertificate, json!(["0x2"])),
        (Method::CornicheGetTransactionStatus, json!([transaction])),
        (Method::CornicheGetTransactionStatus, json!([unknown])),
        (Method::CornicheGetTransactionStatus, json!([pending])),
        (Method::CornicheGetStaking, json!([])),
        (Method::CornicheGetStaking, json!(["0x1"])),
        (Method::CornicheGetShard, json!([ECHO])),
        (Method::CornicheGetShardedTransaction, json!([unknown])),
        (Method::CornicheGetDag, json!(["0x1", "0x4"])),
        (Method::CornicheGetDag, json!(["latest", "0x2"])),
        (Method::EthCreateAccessList, json!([{"to": ECHO, "data": "0x01"}, "latest"])),
        (Method::DebugTraceTransaction, json!([second.receipts[0].transaction_hash, {"tracer": "callTracer"}])),
        (Method::DebugTraceTransaction, json!([second.receipts[0].transaction_hash, {"tracer": "prestateTracer"}])),
        (Method::DebugTraceBlockByNumber, json!(["0x2", {"tracer": "callTracer", "tracerConfig": {"withLog": true}}])),
        (Method::DebugTraceBlockByHash, json!([second.hash, {"tracer": "callTracer", "tracerConfig": {"onlyTopCall": true}}])),
        (
            Method::EthSimulateV1,
            json!([{"blockStateCalls": [{"calls": [{"from": FUNDED, "to": ECHO, "data": "0x01"}, {"to": ECHO, "data": "0x08"}]}]}]),
        ),
        (
            Method::EthSimulateV1,
            json!([{"blockStateCalls": [{"calls": [{"to": ECHO}]}], "returnFullTransactions": true}, "0x1"]),
        ),
        (Method::DebugTraceCall, json!([{"to": ECHO, "data": "0x01"}, "latest", {"tracer": "callTracer"}])),
        (Method::OtsGetApiLevel, nothing.clone()),
        (Method::OtsHasCode, json!([ECHO, "latest"])),
        (Method::OtsGetTransactionError, json!([transaction])),
        (Method::OtsTraceTransaction, json!([second.receipts[0].transaction_hash])),
        (Method::OtsGetInternalOperations, json!([second.receipts[0].transaction_hash])),
        (Method::OtsGetBlockDetails, json!([1])),
        (Method::OtsGetBlockDetails, json!(["latest"])),
        (Method::OtsGetBlockDetailsByHash, json!([hash])),
        (Method::OtsGetBlockTransactions, json!([1, 0, 25])),
        (Method::OtsSearchTransactionsBefore, json!([FUNDED, 0, 25])),
        (Method::OtsSearchTransactionsAfter, json!([ECHO, 0, 25])),
        (Method::OtsGetTransactionBySenderAndNonce, json!([FUNDED, 1])),
        (Method::OtsGetContractCreator, json!([ECHO])),
        (Method::CornicheGetExecution, json!(["0x1"])),
        (Method::Web3Sha3, json!(["0x68656c6c6f20776f726c64"])),
    ];
    let word = alloy_primitives::B256::with_last_byte(7);
    for (methods, params) in [
        ([Method::HardhatMine, Method::AnvilMine], json!(["0x2", 60])),
        ([Method::HardhatSetBalance, Method::AnvilSetBalance], json!([FUNDED, "0x7"])),
        ([Method::HardhatSetNonce, Method::AnvilSetNonce], json!([FUNDED, "0x7"])),
        ([Method::HardhatSetCode, Method::AnvilSetCode], json!([ECHO, "0x"])),
        ([Method::HardhatSetStorageAt, Method::AnvilSetStorageAt], json!([ECHO, "0x3", word])),
        ([Method::HardhatImpersonateAccount, Method::AnvilImpersonateAccount], json!([ECHO])),
        ([Method::HardhatStopImpersonatingAccount, Method::AnvilStopImpersonatingAccount], json!([ECHO])),
        ([Method::HardhatReset, Method::AnvilReset], json!([])),
        ([Method::HardhatSetNextBlockBaseFeePerGas, Method::AnvilSetNextBlockBaseFeePerGas], json!(["0x7"])),
        ([Method::HardhatDropTransaction, Method::AnvilDropTransaction], json!([word])),
        ([Method::HardhatGetAutomine, Method::AnvilGetAutomine], json!([])),
    ] {
        methods.iter().for_each(|method| all.push((*method, params.clone())));
    }
    all.extend([
        (Method::HardhatSetPrevRandao, json!([word])),
        (Method::HardhatMetadata, json!([])),
        (Method::AnvilDropAllTransactions, json!([])),
        (Method::AnvilRemovePoolTransactions, json!([FUNDED])),
        (Method::AnvilNodeInfo, json!([])),
        (Method::EvmMine, json!([])),
        (Method::EvmMine, json!([1_700_000_000])),
        (Method::EvmMine, json!([{"blocks": 3, "timestamp": "0x655"}])),
        (Method::EvmIncreaseTime, json!([60])),
        (Method::EvmSetNextBlockTimestamp, json!(["0x7fffffff"])),
        (Method::EvmSnapshot, json!([])),
        (Method::EvmRevert, json!(["0x1"])),
        (Method::EvmSetAutomine, json!([true])),
        (Method::EvmSetIntervalMining, json!([0])),
        (Method::EthSendTransaction, json!([{"from": FUNDED, "to": ECHO, "value": "0x1", "nonce": "0x9"}])),
    ]);
    for block in ["0x0", "0x1", "0x2", "0xffff", "earliest", "latest", "pending", "safe", "finalized"] {
        all.push((Method::EthGetBlockByNumber, json!([block, false])));
        all.push((Method::EthGetBlockByNumber, json!([block, true])));
    }
    for plain in [
        Method::Web3ClientVersion,
        Method::NetVersion,
        Method::NetListening,
        Method::NetPeerCount,
        Method::RpcDiscover,
        Method::RpcModules,
        Method::EthChainId,
        Method::EthSyncing,
        Method::EthAccounts,
        Method::EthBlockNumber,
        Method::EthGasPrice,
        Method::EthBaseFee,
        Method::TxpoolStatus,
        Method::CornicheGetHeads,
        Method::CornicheGetValidators,
        Method::CornicheGetSyncStatus,
        Method::CornicheGetPeers,
        Method::CornicheGetStatistics,
        Method::CornicheGetShards,
        Method::CornicheGetShardCertificate,
        Method::CornicheGetExecution,
        Method::TxpoolContent,
        Method::TxpoolInspect,
        Method::EthMaxPriorityFeePerGas,
    ] {
        all.push((plain, nothing.clone()));
    }
    all
}

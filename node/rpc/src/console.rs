//! Prints contracts' `console` output on development chains.
//!
//! Block execution does not record this output. So once some contract has used the console, blocks are
//! re-executed with a tracer when they are durable; execution is deterministic, so the output is the same.
//! Calls that change no state are handled the same way.

use crate::backend::{ChainEvent, DevChain};
use crate::node::{Node, wait_for_stop};
use crate::prepare::PreparedCall;
use crate::replay::Replay;
use alloy_primitives::Address;
use corniche_api::RpcError;
use corniche_types::Height;
use corniche_vm::{Trace, TraceFrame, TraceLimits};
use std::fmt::Display;
use std::sync::Arc;
use tokio::sync::{broadcast::error::RecvError, watch};

/// Limits of the trace of one transaction. Console output needs only a fraction of them.
const TRACE_LIMITS: TraceLimits = TraceLimits { bytes: 64 << 20, top_only: false };

/// Runs until the server stops. Returns immediately if this is not a development chain.
pub(crate) async fn run(node: Arc<Node>, stopped: watch::Receiver<bool>) {
    if node.dev().is_none() {
        return;
    }
    let mut events = node.backend.subscribe();
    let mut next = node.backend.head().0 + 1;
    let stopped = wait_for_stop(stopped);
    tokio::pin!(stopped);
    loop {
        let event = tokio::select! {
            () = &mut stopped => return,
            event = events.recv() => event,
        };
        match event {
            Ok(ChainEvent::Head(head)) => {
                if node.backend.vm().has_console_output() {
                    let (node, new) = (Arc::clone(&node), next..=head.0);
                    let printed =
                        tokio::task::spawn_blocking(move || new.for_each(|height| print_block(&node, Height(height)))).await;
                    if let Err(error) = printed {
                        tracing::error!(%error, "cannot read console output of contracts");
                    }
                }
                next = head.0 + 1;
            }
            Ok(ChainEvent::Reverted(reverted)) => next = reverted.to.0 + 1,
            Ok(ChainEvent::Pending(_) | ChainEvent::Committed(_) | ChainEvent::Finalized(_) | ChainEvent::Epoch(_)) => {}
            Err(RecvError::Lagged(_)) => next = node.backend.head().0 + 1,
            Err(RecvError::Closed) => return,
        }
    }
}

fn print_block(node: &Node, height: Height) {
    // Only a debug message: a revert may have removed the block in the meantime.
    if let Err(error) = try_print_block(node, height) {
        tracing::debug!(%height, error = error.message, "cannot read console output of a block");
    }
}

fn try_print_block(node: &Node, height: Height) -> Result<(), RpcError> {
    let (Some(dev), Some(block)) = (node.dev(), node.backend.block(height)) else { return Ok(()) };
    let mut replay = Replay::new(node, Arc::clone(&block))?;
    for receipt in &block.receipts {
        let mut trace = Trace::new(TRACE_LIMITS);
        replay.run(Some(&mut trace))?;
        print_trace(dev, &receipt.transaction_hash, &trace);
    }
    Ok(())
}

/// Prints the console output of a call that changes no state. Runs the call again to record it, if any
/// contract ever used the console.
pub(crate) fn print_call(node: &Node, method: &str, call: &PreparedCall) {
    let Some(dev) = node.dev().filter(|_| call.vm.has_console_output()) else { return };
    let mut trace = Trace::new(TRACE_LIMITS);
    call.vm.trace_call(&*call.view, &call.env, &call.call, &mut trace);
    print_trace(dev, &method, &trace);
}

fn print_trace(dev: &dyn DevChain, run: &dyn Display, trace: &Trace) {
    let mut output = Vec::new();
    trace.root().into_iter().for_each(|root| collect(root, &mut output));
    if !output.is_empty() {
        dev.print_console(run, &output);
    }
}

/// Collects lines with their contracts, in order.
fn collect<'t>(frame: &'t TraceFrame, output: &mut Vec<(Address, &'t str)>) {
    let mut lines = frame.lines.iter().peekable();
    for (before, call) in frame.calls.iter().enumerate() {
        while let Some(line) = lines.next_if(|line| line.calls <= before) {
            output.push((frame.to, &line.text));
        }
        collect(call, output);
    }
    output.extend(lines.map(|line| (frame.to, line.text.as_str())));
}

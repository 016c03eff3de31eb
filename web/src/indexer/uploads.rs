//! Uploaded ABIs for contracts whose code contains none. Pages only read the database. They pass an upload through a
//! short queue to the indexer, which owns the only connection that writes.
//!
//! An uploaded ABI is not verified. It is only possible to check whether the code mentions the functions: a contract
//! compares a call's selector with the known ones, so nearly all of them are constants in its code ([`count_selectors`]). This
//! does not check the names of parameters, and a function name with a given 4-byte hash is found in a minute. So the
//! first upload is kept, and later ones cannot change what others have seen.

use super::{contracts::Code, write};
use crate::{
    database::{DatabaseError, Read, sql},
    node::{Node, NodeError},
};
use alloy_json_abi::JsonAbi;
use alloy_primitives::Address;
use sqlx::AnyConnection;
use std::{collections::HashSet, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of waiting uploads. Further ones are rejected as busy.
const MAX_WAITING: usize = 8;

/// Maximum time that an uploader waits for the indexer.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason why an upload was rejected.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The code contains an ABI.
    #[error("the module contains an ABI, which an upload cannot replace")]
    Embedded,
    /// There is an uploaded ABI already.
    #[error("an ABI was already uploaded for this contract, and it cannot be replaced; see the top of this page")]
    AlreadyUploaded,
    /// The account has no code.
    #[error("no contract at this address in the indexed blocks")]
    NoContract,
    /// The queue is full, or the indexer did not answer in time.
    #[error("upload queue full or indexer busy; retry in a moment")]
    Busy,
    /// The indexer has stopped.
    #[error("the indexer has stopped and accepts no uploads")]
    Stopped,
    /// Database error.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Error of the node.
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// An ABI for a contract.
#[derive(Debug)]
struct Upload {
    address: Address,
    abi: String,
    answer: oneshot::Sender<Result<(), UploadError>>,
}

/// Sending end of the upload queue, for pages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Uploads(mpsc::Sender<Upload>);

/// Receiving end of the upload queue, for the indexer.
#[derive(Debug)]
pub struct Inbox(mpsc::Receiver<Upload>);

/// Creates the upload queue.
pub fn channel() -> (Uploads, Inbox) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (Uploads(sender), Inbox(receiver))
}

impl Uploads {
    /// Submits an ABI and waits until it is stored.
    pub async fn keep(&self, address: Address, abi: String) -> Result<(), UploadError> {
        let (answer, kept) = oneshot::channel();
        self.0.try_send(Upload { address, abi, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => UploadError::Busy,
            mpsc::error::TrySendError::Closed(_) => UploadError::Stopped,
        })?;
        let kept = tokio::time::timeout(UPLOAD_TIMEOUT, kept).await.map_err(|_| UploadError::Busy)?;
        kept.map_err(|_| UploadError::Stopped)?
    }
}

impl Inbox {
    /// Processes waiting uploads. `tip` is the newest indexed block.
    pub async fn serve(&mut self, node: &Node, connection: &mut AnyConnection, tip: Option<u64>) {
        while let Ok(upload) = self.0.try_recv() {
            // The uploader's timeout expired; it has received an error and may retry.
            if upload.answer.is_closed() {
                continue;
            }
            let kept = keep(node, connection, tip, &upload).await;
            let _ = upload.answer.send(kept);
        }
    }
}

async fn keep(node: &Node, connection: &mut AnyConnection, tip: Option<u64>, upload: &Upload) -> Result<(), UploadError> {
    let address = upload.address;
    if source(connection, address).await?.is_none() {
        // At the newest indexed block. A contract from a later block gets its row, and its creator, with that block.
        let tip = tip.ok_or(UploadError::NoContract)?;
        let code = node.code_after(address, tip).await?;
        if code.is_empty() {
            return Err(UploadError::NoContract);
        }
        write::write_contract(connection, address, None, None, &Code::read(&code)).await?;
    }
    if source(connection, address).await?.as_deref() == Some("module") {
        return Err(UploadError::Embedded);
    }
    let text = "UPDATE contracts SET abi = $1, abi_source = 'uploaded' WHERE address = $2 AND abi_source = ''";
    let update = sql(text).bind(upload.abi.clone()).bind(address.to_vec());
    match update.execute(connection).await.map_err(DatabaseError::from)?.rows_affected() {
        0 => Err(UploadError::AlreadyUploaded),
        _ => Ok(()),
    }
}

async fn source(connection: &mut AnyConnection, address: Address) -> Result<Option<String>, DatabaseError> {
    let row =
        sql("SELECT abi_source FROM contracts WHERE address = $1").bind(address.to_vec()).fetch_optional(connection).await?;
    row.map(|row| row.text("abi_source")).transpose()
}

/// Returns how many of the ABI's functions the module mentions, and how many there are. Compilers write a selector as
/// an integer, in either byte order, or as raw bytes.
pub fn count_selectors(module: &[u8], abi: &JsonAbi) -> (usize, usize) {
    let wanted: HashSet<u32> = abi.functions().map(|function| u32::from_be_bytes(function.selector().0)).collect();
    let mut found = HashSet::new();
    for at in 0..module.len() {
        let rest = &module[at..];
        let word = rest.first_chunk().map(|word| u32::from_be_bytes(*word));
        let numbers = [word, constant(rest)].into_iter().flatten().flat_map(|number| [number, number.swap_bytes()]);
        found.extend(numbers.filter(|number| wanted.contains(number)));
    }
    (found.len(), wanted.len())
}

/// Decodes an integer constant of a module: signed LEB128 of at most 32 bits.
fn constant(bytes: &[u8]) -> Option<u32> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        let bits = 7 * (at + 1);
        number |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let negative = bits < 32 && byte & 0x40 != 0;
            return Some(if negative { number | u32::MAX << bits } else { number });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use corniche_abi::interface::embed;

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";
    const FIRST: &str = r#"[{"type":"event","name":"First","inputs":[],"anonymous":false}]"#;
    const SECOND: &str = r#"[{"type":"event","name":"Second","inputs":[],"anonymous":false}]"#;

    #[tokio::test]
    async fn second_upload_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::in_file(&folder.path().join("explorer.db")).await.unwrap();
        let mut connection = database.writer().await.unwrap();
        let (bare, speaking, unmet) = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3));
        write::write_contract(&mut connection, bare, None, None, &Code::read(MODULE)).await.unwrap();
        let code = Code::read(&embed(MODULE, FIRST.as_bytes()));
        write::write_contract(&mut connection, speaking, None, None, &code).await.unwrap();
        let (uploads, mut inbox) = channel();
        let node = Node::new("http://127.0.0.1:1");
        let mut outcomes = Vec::new();
        for (address, abi) in [(bare, FIRST), (bare, SECOND), (bare, FIRST), (speaking, SECOND), (unmet, FIRST)] {
            let keep = uploads.keep(address, abi.to_owned());
            let (kept, ()) = tokio::join!(keep, inbox.serve(&node, &mut connection, None));
            outcomes.push(kept.map_err(|refused| std::mem::discriminant(&refused)));
        }
        let [taken, carried, no_contract] =
            [&UploadError::AlreadyUploaded, &UploadError::Embedded, &UploadError::NoContract].map(std::mem::discriminant);
        assert_eq!(outcomes, [Ok(()), Err(taken), Err(taken), Err(carried), Err(no_contract)]);
        for (address, abi, source) in [(bare, FIRST, "uploaded"), (speaking, FIRST, "module")] {
            let row = sql("SELECT abi, abi_source FROM contracts WHERE address = $1").bind(address.to_vec());
            let row = row.fetch_one(database.readers()).await.unwrap();
            assert_eq!((row.text("abi").unwrap().as_str(), row.text("abi_source").unwrap().as_str()), (abi, source));
        }
        drop(inbox);
        assert!(matches!(uploads.keep(bare, FIRST.into()).await, Err(UploadError::Stopped)));
    }

    #[tokio::test]
    async fn full_queue_rejects_uploads() {
        let (uploads, _inbox) = channel();
        let mut waiting = Vec::new();
        for _ in 0..=MAX_WAITING {
            let mut keep = Box::pin(uploads.keep(Address::ZERO, String::new()));
            waiting.push((futures::poll!(&mut keep), keep));
        }
        let refused = waiting.iter().filter(|(poll, _)| matches!(poll, std::task::Poll::Ready(Err(UploadError::Busy)))).count();
        assert_eq!(refused, 1);
    }

    #[test]
    fn leb128_constants_are_decoded() {
        for (number, bytes) in [
            (0, &[0x00][..]),
            (63, &[0x3f]),
            (64, &[0xc0, 0x00]),
            (-1, &[0x7f]),
            (-64, &[0x40]),
            (-65, &[0xbf, 0x7f]),
            (i32::MIN, &[0x80, 0x80, 0x80, 0x80, 0x78]),
            (i32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x07]),
        ] {
            assert_eq!(constant(bytes), Some(number as u32), "{number}");
        }
        assert_eq!([constant(&[]), constant(&[0x80; 4]), constant(&[0x80; 9])], [None; 3]);
    }

    #[test]
    fn selectors_are_found_in_code() {
        let abi = r#"[{"type":"function","name":"number","inputs":[],"outputs":[],"stateMutability":"view"},
                      {"type":"function","name":"other","inputs":[],"outputs":[],"stateMutability":"view"}]"#;
        let abi: JsonAbi = serde_json::from_str(abi).unwrap();
        let code = |bytes: &[u8]| [b"\0asm\x01\0\0\0\x41", bytes, b"\x46"].concat();
        // 0x8381f58a as a constant, with its bytes reversed, and as raw bytes in both orders.
        for bytes in [
            &[0x8a, 0xeb, 0x87, 0x9c, 0x78][..],
            &[0x83, 0x83, 0xd6, 0xd7, 0x78],
            &[0x83, 0x81, 0xf5, 0x8a],
            &[0x8a, 0xf5, 0x81, 0x83],
        ] {
            assert_eq!(count_selectors(&code(bytes), &abi), (1, 2), "{bytes:x?}");
        }
        assert_eq!(count_selectors(&code(&[0x8a, 0xeb, 0x87, 0x9c, 0x79]), &abi), (0, 2));
        assert_eq!(count_selectors(b"", &abi), (0, 2));
    }
}

//! Truncates and changes every byte of the last record, and damages bytes before the tail.

use super::*;
use corniche_types::B256;

const LIMIT: u64 = 4096;

/// In memory if the system has a RAM disk: syncs are free there, and these tests make thousands.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn settings(directory: &Path, kind: LogKind) -> Settings {
    let identity = Identity { chain_id: 7, genesis_hash: B256::repeat_byte(7) };
    Settings { kind, directory: directory.into(), identity, segment_bytes: LIMIT, sync: true, probe: None }
}

fn open(directory: &Path, kind: LogKind) -> Result<(Log, Found), StoreError> {
    Log::open(settings(directory, kind), 0, false)
}

fn append(log: &mut Log, content: &[u8]) -> Position {
    log.append(0, false, |out| out.extend_from_slice(content)).unwrap().0
}

fn contents(log: &Log) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut records = log.reader().records_from(Position::default());
    let mut contents = Vec::new();
    while let Some(record) = records.next()? {
        assert_eq!(log.reader().read(record.at)?, record.payload, "reading by position and in order agree");
        contents.push(record.payload);
    }
    Ok(contents)
}

/// Writes groups of 1, 2 and 3 records; returns their contents and the path of the only segment.
fn sample(directory: &Path, kind: LogKind) -> (Vec<Vec<u8>>, PathBuf) {
    let (mut log, found) = open(directory, kind).unwrap();
    assert_eq!(found, Found { created: true, cut_bytes: 0 });
    let mut written = Vec::new();
    for group in 1..=3u8 {
        for record in 0..group {
            let content = vec![group * 16 + record; 20 + usize::from(record) * 11];
            append(&mut log, &content);
            written.push(content);
        }
        log.commit().unwrap();
    }
    (written, log.path.clone())
}

/// Content of the log after `damage` to its segment.
fn after(kind: LogKind, damage: impl FnOnce(&mut Vec<u8>)) -> Result<(Vec<Vec<u8>>, u64), StoreError> {
    let directory = scratch();
    let (_, path) = sample(directory.path(), kind);
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let (log, found) = open(directory.path(), kind)?;
    let remaining = contents(&log)?;
    // Whatever was cut, the log accepts new records and is whole when opened again.
    let mut log = log;
    append(&mut log, b"later");
    log.commit().unwrap();
    let (again, nothing) = open(directory.path(), kind)?;
    assert_eq!(nothing, Found::default());
    assert_eq!(contents(&again)?, [remaining.as_slice(), &[b"later".to_vec()]].concat());
    Ok((remaining, found.cut_bytes))
}

fn size(content: &[u8]) -> usize {
    RECORD_HEADER_BYTES + content.len()
}

#[test]
fn truncated_log_keeps_whole_records() {
    for kind in [LogKind::Safety, LogKind::Blocks] {
        let directory = scratch();
        let (written, path) = sample(directory.path(), kind);
        let whole = fs::metadata(path).unwrap().len() as usize;
        for length in HEADER_BYTES..=whole {
            let (remaining, cut) = after(kind, |bytes| bytes.truncate(length)).unwrap();
            let mut end = HEADER_BYTES;
            let complete = written.iter().take_while(|content| {
                end += size(content);
                end <= length
            });
            let expected: Vec<_> = complete.cloned().collect();
            assert_eq!(remaining, expected, "cut at byte {length}");
            let kept: usize = expected.iter().map(|content| size(content)).sum();
            assert_eq!(cut as usize, length - HEADER_BYTES - kept);
        }
    }
}

/// A bit flip in the last record cannot be distinguished from a torn write: the record is cut, everything
/// before it remains.
#[test]
fn flip_in_last_record_cuts_it() {
    for kind in [LogKind::Safety, LogKind::Blocks] {
        let directory = scratch();
        let (written, path) = sample(directory.path(), kind);
        let whole = fs::metadata(path).unwrap().len() as usize;
        let last = whole - size(written.last().unwrap());
        for byte in last..whole {
            for mask in [0x01, 0x80, 0xff] {
                let (remaining, _) = after(kind, |bytes| bytes[byte] ^= mask).unwrap();
                assert_eq!(remaining, written[..written.len() - 1], "byte {byte}, mask {mask:02x}");
            }
        }
    }
}

/// Within the last group, the order in which bytes reached the disk is unknown. So an incomplete record may
/// be torn although whole records of the same group follow it.
#[test]
fn flip_in_last_group_cuts_tail() {
    let directory = scratch();
    let (written, _) = sample(directory.path(), LogKind::Blocks);
    let mut at = HEADER_BYTES + written[..3].iter().map(|content| size(content)).sum::<usize>();
    for kept in 3..6 {
        for byte in at..at + size(&written[kept]) {
            let (remaining, _) = after(LogKind::Blocks, |bytes| bytes[byte] ^= 0x10).unwrap();
            assert_eq!(remaining, written[..kept], "byte {byte}");
        }
        at += size(&written[kept]);
    }
}

/// A later group proves that the damaged one had been synced.
#[test]
fn flip_before_last_group_is_refused() {
    for (kind, expected) in [(LogKind::Safety, "Do not restore safety/"), (LogKind::Blocks, "restore the file from a backup")] {
        let directory = scratch();
        let (written, _) = sample(directory.path(), kind);
        let last_group = HEADER_BYTES + written[..3].iter().map(|content| size(content)).sum::<usize>();
        for byte in 0..last_group {
            let error = after(kind, |bytes| bytes[byte] ^= 0x04).unwrap_err();
            let StoreError::Damaged { advice, .. } = &error else { panic!("byte {byte}: {error}") };
            assert!(advice.contains(expected), "{error}");
        }
    }
}

#[test]
fn torn_tail_is_cut() {
    for garbage in [vec![0u8; 300], vec![0xc0; 300], [0xc0, 0x27, 0x1c, 0xe5].repeat(70)] {
        let (remaining, cut) = after(LogKind::Blocks, |bytes| bytes.extend_from_slice(&garbage)).unwrap();
        assert_eq!((remaining.len(), cut as usize), (6, garbage.len()));
    }
}

/// A record copied to another position, even with its header, is invalid there.
#[test]
fn misplaced_record_is_invalid() {
    let (remaining, cut) = after(LogKind::Blocks, |bytes| {
        let first = bytes[HEADER_BYTES..HEADER_BYTES + RECORD_HEADER_BYTES + 20].to_vec();
        bytes.extend_from_slice(&first);
    })
    .unwrap();
    assert_eq!((remaining.len(), cut), (6, 52));
}

#[test]
fn missing_segment_is_refused() {
    let directory = scratch();
    let (mut log, _) = open(directory.path(), LogKind::Blocks).unwrap();
    for index in 0..20u8 {
        append(&mut log, &[index; 1000]);
        log.commit().unwrap();
    }
    assert!(log.sequence >= 4, "20 kB at 4 kB a segment");
    drop(log);
    let (log, found) = open(directory.path(), LogKind::Blocks).unwrap();
    assert_eq!(found, Found::default());
    assert_eq!(contents(&log).unwrap(), (0..20u8).map(|index| vec![index; 1000]).collect::<Vec<_>>());

    let path = log.reader.settings.path(1);
    let kept = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let error = open(directory.path(), LogKind::Blocks).err().unwrap();
    assert!(error.to_string().contains("the segment is missing"), "{error}");
    // A segment in place of another is detected too.
    fs::copy(log.reader.settings.path(2), &path).unwrap();
    let error = open(directory.path(), LogKind::Blocks).err().unwrap();
    assert!(error.to_string().contains("in a wrong place"), "{error}");
    fs::write(&path, &kept).unwrap();
    // Damage in a segment before the last is never a torn tail, not even at its end.
    fs::write(&path, &kept[..kept.len() - 1]).unwrap();
    let (log, _) = open(directory.path(), LogKind::Blocks).unwrap();
    assert!(matches!(contents(&log), Err(StoreError::Damaged { .. })));
}

/// If the creation of a segment is interrupted at any byte, the log still opens and continues.
#[test]
fn incomplete_segment_is_recreated() {
    let directory = scratch();
    let (mut log, _) = open(directory.path(), LogKind::Safety).unwrap();
    append(&mut log, &[1; LIMIT as usize]);
    log.commit().unwrap();
    append(&mut log, b"in the next segment");
    let second = log.path.clone();
    let header = fs::read(&second).unwrap();
    assert_eq!(header.len(), HEADER_BYTES);
    drop(log);
    for length in 0..HEADER_BYTES {
        fs::write(&second, &header[..length]).unwrap();
        let (mut log, _) = open(directory.path(), LogKind::Safety).unwrap();
        assert_eq!(contents(&log).unwrap().len(), 1);
        append(&mut log, b"again");
        assert_eq!(log.sequence, 1);
    }
    let only = scratch();
    for length in 0..HEADER_BYTES {
        fs::write(only.path().join("000000000000.log"), &header[..length]).unwrap();
        let (log, found) = open(only.path(), LogKind::Safety).unwrap();
        assert!(found.created);
        drop(log);
        fs::remove_file(only.path().join("000000000000.log")).unwrap();
    }
}

#[test]
fn foreign_segment_is_refused() {
    let directory = scratch();
    sample(directory.path(), LogKind::Blocks);
    let other = Identity { chain_id: 8, genesis_hash: B256::repeat_byte(8) };
    let foreign = Settings { identity: other, ..settings(directory.path(), LogKind::Blocks) };
    let error = Log::open(foreign, 0, false).err().unwrap();
    assert!(matches!(error, StoreError::OtherChain { .. }), "{error}");
    assert!(error.to_string().contains("chain 7") && error.to_string().contains("chain 8"), "names both: {error}");
    let error = open(directory.path(), LogKind::Safety).err().unwrap();
    assert!(error.to_string().contains("Blocks log"), "{error}");
}

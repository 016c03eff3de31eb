//! A chain of three epochs, and snapshots of it.

use corniche_crypto::{BlsSecretKey, CommitteeKeys, Committees, ConsensusKey, bls_combine, deal_coin};
use corniche_state::chunks::{CodeInfo, ItemBuffer, Manifest, Prefix, cut};
use corniche_state::{Account, Changes, State, Tree};
use corniche_sync::{FetchConfig, Offer, SnapshotSource, build_below, message::PART_BYTES};
use corniche_types::*;
use std::{collections::BTreeMap, convert::Infallible, rc::Rc};

/// Last blocks of epochs 0 and 1.
pub const ENDS: [u64; 2] = [100, 200];
pub const HEAD: u64 = 330;
/// Blocks with snapshots.
pub const SNAPSHOTS: [u64; 3] = [240, 270, 300];
/// Bytes of entries of a chunk.
const CHUNK_BYTES: u64 = 3_000;
pub const SLOTS: u64 = 4_000;

fn bls_key(key: u8) -> BlsSecretKey {
    BlsSecretKey::from_seed([100 + key; 32])
}

fn genesis() -> Genesis {
    let infos = (0..4).map(|i| ValidatorInfo {
        consensus_key: ConsensusKey::from_seed([i; 32]).public(),
        bls_key: bls_key(i).public().to_bytes().to_vec().into(),
        bls_proof: bls_key(i).prove_possession().to_bytes().to_vec().into(),
        network_key: ConsensusKey::from_seed([50 + i; 32]).public(),
        fee_address: Address::repeat_byte(i),
        votes: Votes(1),
        stake: None,
    });
    let weights = Weights::one_each(4, FaultModel::Byzantine);
    let (coin_public_key, coin_shares) = deal_coin(&weights, weights.quorum(), [9; 32]).public.to_genesis();
    Genesis {
        protocol_version: 1,
        upgrades: Vec::new(),
        chain_id: 77,
        currency: "COR".into(),
        timestamp_ms: TimestampMs(1_000),
        block_ms: 50,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 30_000_000,
        epoch_blocks: 1_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1_000_000 },
        engine: EngineConfig { name: "mahi-mahi".into(), parameters: Default::default() },
        validators: infos.collect(),
        coin_shares,
        coin_public_key,
        accounts: Default::default(),
        signatures: Default::default(),
        staking: None,
        coin_draft: None,
        multicast: None,
    }
}

/// keccak-256 and bytes of the code of every third account.
fn code(index: u64) -> Bytes {
    vec![index as u8 + 1; 500 + index as usize].into()
}

fn word(seed: u64) -> B256 {
    keccak256(seed.to_be_bytes())
}

/// The state at a snapshot: later ones have more slots in a few subtrees, and one code more each.
fn changes_at(position: usize) -> Changes {
    let mut changes = Changes::default();
    for index in 0..30 + position as u64 * 3 {
        let (code_hash, abi_version, gas_version) =
            if index % 3 == 0 { (keccak256(code(index)), 1, 2) } else { (KECCAK_EMPTY, 0, 0) };
        let account = Account { nonce: index + 1, balance: U256::from(index), code_hash, abi_version, gas_version };
        changes.accounts.insert(Address::from_word(word(index)), Some(account));
    }
    for index in 0..SLOTS + position as u64 * 20 {
        changes.storage.insert((Address::with_last_byte(7), word(index)), word(index | 1 << 40));
    }
    changes
}

/// A snapshot with all that a peer serves of it.
pub struct SnapshotFiles {
    pub offer: Offer,
    pub manifest: Manifest,
    pub chunks: Vec<Bytes>,
    pub codes: BTreeMap<B256, Bytes>,
    pub tail: SnapshotTail,
}

pub struct Chain {
    pub genesis: Genesis,
    headers: Vec<Header>,
    records: Vec<OrderingRecord>,
    resumes: Vec<Resume>,
    pub changes: Vec<EpochChange>,
    pub snapshots: Vec<Rc<SnapshotFiles>>,
}

fn epoch_of(height: u64) -> u64 {
    ENDS.iter().filter(|end| height > **end).count() as u64
}

/// Numbers of the keys of an epoch's members: others from epoch 1 on, and the same in epoch 2.
fn keys_of(epoch: u64) -> [u8; 4] {
    if epoch == 0 { [0, 1, 2, 3] } else { [4, 5, 6, 7] }
}

pub fn members_of(epoch: u64) -> Vec<LightMember> {
    keys_of(epoch).map(|key| LightMember { bls_key: bls_key(key).public().to_bytes(), votes: Votes(1) }).to_vec()
}

impl Chain {
    pub fn new() -> Rc<Self> {
        let mut chain = Self {
            genesis: genesis(),
            headers: Vec::new(),
            records: Vec::new(),
            resumes: Vec::new(),
            changes: Vec::new(),
            snapshots: Vec::new(),
        };
        let mut parts = Vec::new();
        for height in 0..=HEAD {
            let mut state_root = B256::repeat_byte(height as u8);
            if let Some(position) = SNAPSHOTS.iter().position(|at| *at == height) {
                let changes = changes_at(position);
                state_root = Tree::default().apply(&changes);
                parts.push((height, changes));
            }
            chain.add_block(height, state_root);
        }
        for (epoch, end) in (0..).zip(ENDS) {
            let head = chain.records[end as usize].encode_hashed().into();
            let certificate = chain.certificate(end);
            let members = (members_of(epoch) != members_of(epoch + 1)).then(|| members_of(epoch + 1));
            chain.changes.push(EpochChange { header: chain.header(end), head, certificate, members });
        }
        for (height, changes) in parts {
            let files = chain.snapshot(height, &changes);
            chain.snapshots.push(Rc::new(files));
        }
        Rc::new(chain)
    }

    fn add_block(&mut self, height: u64, state_root: B256) {
        let epoch = epoch_of(height);
        // The tail of the first snapshot has several parts.
        let checkpoint_bytes = if height == SNAPSHOTS[0] { 2 * PART_BYTES } else { 40 };
        let checkpoint = vec![height as u8; checkpoint_bytes].into();
        let resume = Resume { epoch: Epoch(epoch), index: CommitIndex(height), checkpoint };
        let next = ENDS.contains(&height).then(|| NextEpoch {
            committee_hash: self.committee_hash(epoch + 1),
            light_root: light_root(FaultModel::Byzantine, &members_of(epoch + 1)),
            protocol_version: 5,
        });
        let record = OrderingRecord {
            protocol_version: 5,
            engine: "mahi-mahi".into(),
            epoch: Epoch(epoch),
            committee_hash: self.committee_hash(epoch),
            next,
            first_commit: CommitIndex(height),
            last_commit: CommitIndex(height),
            last_commit_consumed: 0,
            leader: ValidatorIndex(0),
            time: TimestampMs(height * 1_000),
            randomness: B256::ZERO,
            batches: Vec::new(),
            transactions_hash: B256::ZERO,
            skipped: Vec::new(),
            resume_hash: resume.hash(),
        };
        let parent_hash = self.headers.last().map_or(B256::ZERO, header_hash);
        let (extra_data, timestamp) = (record.extra_data(), 1_000 + height / 2);
        self.headers.push(Header { number: height, parent_hash, state_root, extra_data, timestamp, ..Header::default() });
        self.records.push(record);
        self.resumes.push(resume);
    }

    pub fn committee_hash(&self, epoch: u64) -> B256 {
        if epoch == 0 { self.genesis.committee_hash() } else { B256::with_last_byte(epoch as u8) }
    }

    pub fn header(&self, height: u64) -> Header {
        self.headers[height as usize].clone()
    }

    pub fn certificate(&self, height: u64) -> Certificate {
        self.sign(height, epoch_of(height), header_hash(&self.headers[height as usize]), &keys_of(epoch_of(height)))
    }

    /// A certificate with the signatures of these keys.
    pub fn sign(&self, height: u64, epoch: u64, header_hash: B256, keys: &[u8; 4]) -> Certificate {
        let (epoch, committee_hash, height) = (Epoch(epoch), self.committee_hash(epoch), Height(height));
        let fault_model = FaultModel::Byzantine;
        let message = Certificate::signed_bytes(77, epoch, committee_hash, height, header_hash, fault_model);
        let shares: Vec<_> = keys[..3].iter().map(|key| bls_key(*key).sign(&message).to_bytes()).collect();
        let signature = bls_combine(&shares).unwrap().to_bytes().to_vec().into();
        let signers = SignerBitmap::from_signers((0..3).map(ValidatorIndex), 4);
        Certificate { epoch, committee_hash, height, header_hash, fault_model, signers, signature }
    }

    /// The tail of a block whose next certificate is 3 blocks above.
    pub fn tail(&self, height: u64) -> SnapshotTail {
        let certified = height + 3;
        let epoch = epoch_of(height);
        SnapshotTail {
            header: EncodedHeader(self.header(height)),
            ordering: self.records[height as usize].clone(),
            resume: self.resumes[height as usize].clone(),
            above: (height + 1..=certified).map(|number| EncodedHeader(self.header(number))).collect(),
            certificate: self.certificate(certified),
            below: build_below(&self.header(height), |number| self.headers.get(number.0 as usize).cloned()).unwrap(),
            change: epoch.checked_sub(1).map(|before| self.changes[before as usize].clone()),
        }
    }

    pub fn snapshot(&self, height: u64, changes: &Changes) -> SnapshotFiles {
        let state = State::with_seed(7);
        state.apply(Height(height), changes);
        let mut buffer = ItemBuffer::default();
        state.latest().for_each_entry(|entry| buffer.push(&entry));
        let (mut infos, mut chunks) = (Vec::new(), Vec::new());
        let Ok(()) = cut(buffer.sort(), Prefix { bits: 0, depth: 0 }, CHUNK_BYTES, &mut |info, bytes| {
            infos.push(info);
            chunks.push(Bytes::from(bytes));
            Ok::<_, Infallible>(())
        });
        let codes: BTreeMap<_, _> = (0..60).map(code).map(|code| (keccak256(&code), code)).collect();
        let used: std::collections::BTreeSet<_> =
            changes.accounts.values().flatten().map(|account| account.code_hash).collect();
        let listed = codes.iter().filter(|(hash, _)| used.contains(*hash));
        let manifest = Manifest {
            chain_id: 77,
            genesis_hash: self.genesis_hash(),
            height: Height(height),
            header_hash: header_hash(&self.header(height)),
            chunks: infos,
            codes: listed.map(|(hash, code)| CodeInfo { hash: *hash, length: code.len() as u32 }).collect(),
        };
        SnapshotFiles { offer: offer_of(&manifest), manifest, chunks, codes, tail: self.tail(height) }
    }

    pub fn genesis_hash(&self) -> B256 {
        B256::repeat_byte(0x6e)
    }

    pub fn committees(&self) -> Committees {
        Committees::new(CommitteeKeys::from_genesis(&self.genesis).unwrap())
    }

    pub fn all_committees(&self) -> Committees {
        let mut committees = self.committees();
        self.changes.iter().for_each(|change| committees.advance(change).unwrap());
        committees
    }

    pub fn config(&self) -> FetchConfig {
        FetchConfig { chain_id: 77, genesis_hash: self.genesis_hash(), trust: None, only_if_ahead_by: None }
    }
}

pub fn offer_of(manifest: &Manifest) -> Offer {
    let bytes = manifest.encode();
    let (height, header_hash) = (manifest.height, manifest.header_hash);
    Offer { height, header_hash, manifest: keccak256(&bytes), manifest_bytes: bytes.len() as u32 }
}

/// Part of a chain that a peer has.
#[derive(Clone)]
pub struct Library {
    pub chain: Rc<Chain>,
    pub snapshots: Vec<Rc<SnapshotFiles>>,
}

impl Library {
    /// Has one snapshot, by its position.
    pub fn with(chain: &Rc<Chain>, position: usize) -> Self {
        Self { chain: chain.clone(), snapshots: vec![chain.snapshots[position].clone()] }
    }

    fn of(&self, manifest: &B256) -> Option<&SnapshotFiles> {
        self.snapshots.iter().find(|files| files.offer.manifest == *manifest).map(Rc::as_ref)
    }
}

impl SnapshotSource for Library {
    fn certified(&self) -> Height {
        Height(HEAD)
    }

    fn epoch_change(&self, epoch: Epoch) -> Option<EpochChange> {
        self.chain.changes.get(epoch.0 as usize).cloned()
    }

    fn offers(&self) -> Vec<Offer> {
        self.snapshots.iter().map(|files| files.offer).collect()
    }

    fn manifest_part(&self, manifest: &B256, offset: u64, length: usize) -> Option<Bytes> {
        let bytes = self.of(manifest)?.manifest.encode();
        let rest = bytes.get(offset as usize..)?;
        Some(rest[..length.min(rest.len())].to_vec().into())
    }

    fn chunk(&self, manifest: &B256, index: u32) -> Option<Bytes> {
        self.of(manifest)?.chunks.get(index as usize).cloned()
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.snapshots.iter().find_map(|files| files.codes.get(hash)).cloned()
    }

    fn tail_part(&self, manifest: &B256, offset: u64, length: usize) -> Option<Bytes> {
        let bytes = wire::encode(&self.of(manifest)?.tail);
        let rest = bytes.get(offset as usize..)?;
        Some(rest[..length.min(rest.len())].to_vec().into())
    }
}

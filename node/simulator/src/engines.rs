//! The engines by name, and what the simulator watches of them.

use crate::scenario::{Crypto, Scenario};
use corniche_crypto::{CoinPublicKeys, CoinSecretShare, ConsensusKey};
use corniche_engine::{Batch, Committee, Engine, Input, Ordered, Output, Recipients, Resume, TraceEvent, Verifier};
use corniche_pipeline::EngineFactory;
use corniche_types::{Genesis, TimestampMs};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};


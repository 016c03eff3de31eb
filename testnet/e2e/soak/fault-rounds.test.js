// Seeded faults of every kind on real processes, one after another under load (`lib/faults.js`). Within 10 s after each fault a
// new transfer is executed, all nodes agree, and no receipt is lost. FAULT_ROUNDS rounds in total (default 1,000), shared by
// the engines, or those in ENGINE. FAULT_KINDS selects kinds, for instance flip,tear. SEED repeats a run's choices, but not the
// system's timing.

import { engines, underEveryEngine } from '../../js/network.js';
import { faultRounds } from '../lib/rounds.js';

const rounds = Math.ceil(Number(process.env.FAULT_ROUNDS ?? 1_000) / engines.length);
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

const only = process.env.FAULT_KINDS?.split(',');
const options = { seed, rounds, only, lastsMs: [500, 10_000], frozenMs: [1_000, 60_000], progressMs: 10_000 };

underEveryEngine(`${rounds} rounds of faults (seed ${seed})`, { timeout: 6 * 3_600_000 }, (t, engine) => faultRounds(t, engine, options));

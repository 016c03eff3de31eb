// Each kind of fault once, on real processes under load; `soak/fault-rounds.test.js` draws a thousand. Nothing is timed: a round
// ends when all nodes agree again.

import { underEveryEngine } from '../../js/network.js';
import { faultRounds } from '../lib/rounds.js';

const kinds = ['crash', 'freeze', 'slow', 'partition', 'silence', 'delay', 'drops', 'flip', 'tear', 'full', 'nearly-full', 'read-only', 'clock', 'ahead'];
const options = { seed: 1, kinds, lastsMs: [300, 600], frozenMs: [1_000, 2_000] };

underEveryEngine('one round of each fault', { timeout: 600_000 }, (t, engine) => faultRounds(t, engine, options));

// Four validators and two sequencers, under load. Requirements: users lose no transfer while a sequencer dies, while the other one dies
// later, while a validator dies, and while everything dies at once; a sequencer that starts again orders nothing until the
// validators give it a new epoch. Prints the latency of transfers.

import assert from 'node:assert/strict';
import test from 'node:test';
import { engines, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';
import { latency, Load, PATIENT } from '../lib/load.js';

/** Transfers per second. */
const RATE = Number(process.env.RATE ?? 100);
/** `xdp`: the first sequencer is a program in the kernel (`make hardware`). */
const SEQUENCER = process.env.SEQUENCER ?? 'process';
const SUITES = process.env.SUITE?.split(',').map(Number) ?? (SEQUENCER === 'xdp' ? [1] : [1, 5]);

for (const suite of engines.includes('neobft') ? SUITES : []) {
  test(`sequencers with suite ${suite}, the first as ${SEQUENCER}`, { timeout: 600_000 }, async (t) => {
    const options = { validators: 4, engine: 'neobft', sequencers: 2, sequencer: SEQUENCER, suite };
    const started = await withNetwork(t, options).catch((error) => {
      // Many kernels refuse XDP, even to root.
      if (SEQUENCER !== 'xdp' || !error.message.includes('CAP_BPF')) throw error;
      t.skip(`the kernel has no XDP for this process: ${error.message}`);
    });
    if (!started) return;
    const { network, step } = started;
    const { validators, sequencers } = network;
    const load = new Load(network, RATE);
    t.after(() => load.stop());

    const epoch = async (node) => Number((await (await fetch(node.metrics)).text()).match(/^corniche_multicast_epoch (\d+)$/m)[1]);
    const reaches = (number) => Promise.all(validators.map((node) => {
      return until(`epoch ${number} of the group at ${node.name}`, async () => (await epoch(node)) >= number, PATIENT);
    }));
    const newest = async () => Math.max(...(await Promise.all(validators.map(epoch))));

    /** Waits until some transfers that are sent from now on are executed. */
    const goesOn = async () => {
      const from = load.transfers.length;
      await until('transfers to be executed', () => load.transfers.slice(from).filter(({ receipt }) => receipt).length >= RATE, PATIENT);
    };

    /** Prints the latency of the transfers since the last report. */
    let reported = 0;
    const report = (when) => {
      const sent = load.transfers.slice(reported).filter(({ tookMs }) => tookMs !== undefined);
      reported = load.transfers.length;
      t.diagnostic(`suite ${suite}, ${when}: ${latency(sent)}`);
    };

    const replaced = async (sequencer) => {
      const before = await newest();
      sequencer.kill();
      await sequencer.gone();
      await reaches(before + 1);
      await goesOn();
    };

    await step('the first sequencer orders, the second is on standby', async () => {
      load.start();
      await goesOn();
      assert.equal(await newest(), 0);
      const [{ groups: [first] }, { groups: [second] }] = await Promise.all(sequencers.map((sequencer) => sequencer.health()));
      assert.ok(first.seq > 0, 'packets have numbers');
      assert.equal(first.epoch, 0);
      assert.equal(second.epoch, null);
      report('calm');
    });

    await step('the second replaces the first', async () => {
      await replaced(sequencers[0]);
      report('first sequencer dead');
    });

    await step('the first starts again, waits, and replaces the second', async () => {
      await sequencers[0].restart();
      assert.equal((await sequencers[0].health()).groups[0].epoch, null, 'it does not resume an epoch');
      await replaced(sequencers[1]);
      report('second sequencer dead');
      await sequencers[1].restart();
    });

    await step('a validator dies and comes back', async () => {
      await load.kill(validators[3]);
      await goesOn();
      await load.restart(validators[3]);
      await goesOn();
      report('one validator dead for a while');
    });

    await step('everything dies and comes back', async () => {
      const before = await newest();
      await Promise.all(validators.map((node) => load.kill(node)));
      for (const sequencer of sequencers) sequencer.kill();
      await Promise.all(sequencers.map((sequencer) => sequencer.gone()));
      await Promise.all(sequencers.map((sequencer) => sequencer.restart()));
      await Promise.all(validators.map((node) => node.restart()));
      await reaches(before + 1);
      validators.forEach((node) => load.down.delete(node));
      await goesOn();
    });

    await step('no transfer is lost, and all validators agree', async () => {
      load.stop();
      await load.executed();
      const [first] = validators;
      const tip = await first.client.getBlockNumber();
      const blocks = await Promise.all(validators.map((node) => node.block(tip)));
      for (const { hash } of blocks) assert.equal(hash, blocks[0].hash);
      t.diagnostic(`suite ${suite}: ${load.transfers.length} transfers`);
    });
  });
}

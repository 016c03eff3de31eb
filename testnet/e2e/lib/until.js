// Waiting for conditions. Nothing in these tests sleeps for a fixed time: it asks until the answer is right, or fails at the
// deadline saying what it waited for and what it saw last.

const PAUSE_MS = 20;

/** Asks until `ask` returns something other than undefined, null or false, and returns that. */
export async function until(what, ask, { deadlineMs = 60_000 } = {}) {
  const end = Date.now() + deadlineMs;
  let last = 'nothing yet';
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== null && answer !== false) return answer;
    } catch (error) {
      last = error.shortMessage ?? error.message;
    }
    if (Date.now() > end) throw new Error(`${deadlineMs} ms passed waiting for: ${what} (last: ${last})`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

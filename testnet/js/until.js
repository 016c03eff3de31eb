// Waiting for conditions. These tests never sleep for a fixed time: they poll until a condition holds, or fail at the
// deadline with the condition and the last value.

const PAUSE_MS = 20;

/** Polls until `poll` returns something other than undefined, null or false, and returns that. */
export async function until(description, poll, { deadlineMs = 60_000 } = {}) {
  const end = Date.now() + deadlineMs;
  let last = 'nothing yet';
  for (;;) {
    try {
      const value = await poll();
      if (value !== undefined && value !== null && value !== false) return value;
    } catch (error) {
      last = error.shortMessage ?? error.message;
    }
    if (Date.now() > end) throw new Error(`${deadlineMs} ms passed waiting for: ${description} (last: ${last})`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

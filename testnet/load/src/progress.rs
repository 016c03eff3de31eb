//! Progress line, overwritten every second.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Counters of a run in progress.
#[derive(Default)]
pub struct Progress {
    pub sent: AtomicUsize,
    pub done: AtomicUsize,
}

/// Progress line. Written only to a terminal.
pub struct Line<'a> {
    progress: &'a Progress,
    /// Name of the counted action, such as "executed".
    word: &'static str,
    started: Instant,
    shown: bool,
}

impl<'a> Line<'a> {
    pub fn new(progress: &'a Progress, word: &'static str) -> Self {
        Self { progress, word, started: Instant::now(), shown: stderr().is_terminal() }
    }

    /// Writes the line every second until `ended` returns true; call it on its own thread.
    pub fn show_until(&self, ended: impl Fn() -> bool) {
        let (mut seconds, mut before) = (0, 0);
        while self.shown && !ended() {
            // Short steps, so that it ends promptly.
            thread::sleep(Duration::from_millis(50));
            if self.started.elapsed() >= Duration::from_secs(seconds + 1) {
                let done = self.progress.done.load(Ordering::Relaxed);
                let text = text(seconds + 1, self.progress.sent.load(Ordering::Relaxed), done, done - before, self.word);
                let _ = write!(stderr(), "\r{text:<78}");
                (seconds, before) = (seconds + 1, done);
            }
        }
        if seconds > 0 {
            let _ = write!(stderr(), "\r{:<78}\r", "");
        }
    }
}

fn text(seconds: u64, sent: usize, done: usize, lately: usize, word: &str) -> String {
    format!("{seconds} s: {sent} sent, {done} {word}, {lately} in the last second")
}

#[cfg(test)]
mod tests {
    #[test]
    fn progress_line_shows_share_and_rate() {
        assert_eq!(super::text(3, 900, 850, 300, "executed"), "3 s: 900 sent, 850 executed, 300 in the last second");
    }
}

//! Read requests, repeated for the duration of the run.
//!
//! With a rate, each request has a scheduled time, and its latency is measured from then, even if no
//! connection was free. So a node that stalls for a second is not spared by a generator that stalls with it
//! ("coordinated omission"). Without a rate, every connection sends the next request right after the
//! response, and the latency is from request to response.

use super::{Report, latency::Latencies, progress::Line, progress::Progress, wire::Connection};
use anyhow::{Context, anyhow, ensure};
use corniche_client::Refusal;
use corniche_console::processor::process_cpu;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Encodes a request in the form of `--read`: a method, then optionally a space and the parameters as a JSON
/// array.
pub fn request(read: &str) -> anyhow::Result<String> {
    let (method, params) = read.trim().split_once(' ').unwrap_or((read.trim(), "[]"));
    let params: Value = serde_json::from_str(params).with_context(|| format!("the parameters of {method} are no JSON"))?;
    ensure!(params.is_array(), "the parameters of {method} are not an array");
    ensure!(!method.is_empty(), "a read without a method");
    Ok(format!(r#"{{"jsonrpc":"2.0","id":1,"method":{},"params":{params}}}"#, Value::from(method)))
}

pub struct Plan<'a> {
    pub urls: &'a [String],
    pub connections: usize,
    /// Used round robin.
    pub requests: &'a [String],
    pub duration: Duration,
    /// Requests per second over all connections.
    pub rate: Option<f64>,
}

/// Time since the start of the run.
trait Clock {
    fn elapsed(&self) -> Duration;
    fn wait_until(&self, at: Duration);
}

impl Clock for Instant {
    fn elapsed(&self) -> Duration {
        Self::elapsed(self)
    }

    fn wait_until(&self, at: Duration) {
        thread::sleep(at.saturating_sub(Self::elapsed(self)));
    }
}

/// State shared by the connections.
struct Run<'a, C> {
    plan: &'a Plan<'a>,
    clock: C,
    /// Number of the next request.
    next: AtomicUsize,
    progress: Progress,
    failure: Mutex<Option<anyhow::Error>>,
    ended: AtomicBool,
}

pub fn measure(plan: &Plan) -> anyhow::Result<Report> {
    let count = plan.connections;
    let mut connections =
        plan.urls.iter().cycle().take(count).map(|url| Connection::new(url)).collect::<Result<Vec<_>, _>>()?;
    // Connecting is not measured, nor is one-time work of the node.
    for (connection, request) in connections.iter_mut().zip(plan.requests.iter().cycle()) {
        ask(connection, request)?;
    }
    let used = process_cpu();
    let run = &Run::new(plan, Instant::now());
    let latencies = thread::scope(|scope| {
        let line = Line::new(&run.progress, "answered");
        scope.spawn(move || line.show_until(|| run.ended.load(Ordering::Relaxed)));
        let threads: Vec<_> = connections
            .iter_mut()
            .map(|connection| scope.spawn(move || run.work(|request| ask(connection, request))))
            .collect();
        let latencies = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
        run.ended.store(true, Ordering::Relaxed);
        latencies
    });
    let (seconds, processor) = (run.clock.elapsed().as_secs_f64(), process_cpu().saturating_sub(used));
    if let Some(error) = run.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let latencies = Latencies::new(latencies);
    Ok(Report { noun: "request", planned: latencies.count(), latencies, seconds, processor, pushed_back: None })
}

impl<'a, C: Clock> Run<'a, C> {
    fn new(plan: &'a Plan<'a>, clock: C) -> Self {
        let (next, progress, failure) = (AtomicUsize::new(0), Progress::default(), Mutex::new(None));
        Self { plan, clock, next, progress, failure, ended: AtomicBool::new(false) }
    }

    /// Sends requests until the time is over; returns the latencies in microseconds.
    fn work(&self, mut ask: impl FnMut(&str) -> anyhow::Result<()>) -> Vec<u64> {
        let mut latencies = Vec::new();
        while !self.ended.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let from = match self.plan.rate {
                Some(rate) => Duration::from_secs_f64(number as f64 / rate),
                None => self.clock.elapsed(),
            };
            if from >= self.plan.duration {
                break;
            }
            self.clock.wait_until(from);
            self.progress.sent.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = ask(&self.plan.requests[number % self.plan.requests.len()]) {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                self.ended.store(true, Ordering::Relaxed);
                break;
            }
            latencies.push(u64::try_from((self.clock.elapsed() - from).as_micros()).unwrap_or(u64::MAX));
            self.progress.done.fetch_add(1, Ordering::Relaxed);
        }
        latencies
    }
}

/// An error response is a failure of the run: errors are cheap, and would look like speed.
fn ask(connection: &mut Connection, request: &str) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        error: Option<Refusal>,
        #[serde(borrow)]
        result: Option<&'a RawValue>,
    }
    let body = connection.post(request.as_bytes())?;
    let answer: Answer = serde_json::from_slice(&body).context("invalid response")?;
    match answer {
        Answer { error: Some(refusal), .. } => Err(anyhow!("{request:.200} is refused: {refusal}")),
        Answer { result: None, .. } => Err(anyhow!("{request:.200} is answered with nothing")),
        Answer { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::Cell,
        io::{Read, Write},
        net::TcpListener,
    };

    const OK: &str = r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#;

    /// Node with one connection that sends these responses in order.
    fn node(answers: Vec<&'static str>) -> (String, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            for body in answers {
                if stream.read(&mut request).unwrap_or_default() == 0 {
                    break;
                }
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        };
        (url, thread::spawn(serve))
    }

    fn plan<'a>(urls: &'a [String], requests: &'a [String], rate: Option<f64>) -> Plan<'a> {
        Plan { urls, connections: 1, requests, duration: Duration::from_millis(100), rate }
    }

    #[test]
    fn read_is_method_and_parameters() {
        assert_eq!(request("eth_blockNumber").unwrap(), r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#);
        assert_eq!(
            request(r#"eth_getBalance ["0x12", "latest"]"#).unwrap(),
            r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x12","latest"]}"#
        );
        for wrong in ["", "eth_call {}", "eth_call [", "eth_call x"] {
            assert!(request(wrong).is_err(), "{wrong}");
        }
    }

    /// Virtual time that advances only by waiting.
    impl Clock for Cell<Duration> {
        fn elapsed(&self) -> Duration {
            self.get()
        }

        fn wait_until(&self, at: Duration) {
            self.set(self.get().max(at));
        }
    }

    #[test]
    fn stalled_node_counts_waiting_requests() {
        // Twenty requests are due within 0.1 s, during which the first one is delayed.
        let requests = [String::new()];
        let plan = plan(&[], &requests, Some(200.0));
        let run = Run::new(&plan, Cell::new(Duration::ZERO));
        let mut held = Duration::from_millis(100);
        let latencies = run.work(|_| {
            run.clock.set(run.clock.get() + std::mem::take(&mut held));
            Ok(())
        });
        let due: Vec<u64> = (0..20).map(|number| 5_000 * number).collect();
        assert_eq!(
            latencies,
            due.iter().map(|due| 100_000 - due).collect::<Vec<_>>(),
            "none is left out, or counts from when it was sent"
        );
        assert_eq!(run.clock.get(), Duration::from_millis(100), "who is late waits for nothing");
    }

    #[test]
    fn fast_node_is_asked_on_schedule() {
        let requests = [String::new()];
        let plan = plan(&[], &requests, Some(200.0));
        let run = Run::new(&plan, Cell::new(Duration::ZERO));
        let mut asked = Vec::new();
        let latencies = run.work(|_| {
            asked.push(run.clock.get().as_millis());
            Ok(())
        });
        assert_eq!((latencies, asked), (vec![0; 20], (0..20).map(|number| 5 * number).collect()));
    }

    #[test]
    fn errors_and_empty_responses_end_the_run() {
        for (body, word) in [
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no no"}}"#, "no no"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "nothing"),
            ("busy", "invalid response"),
        ] {
            let (url, server) = node(vec![OK, body]);
            let requests = [request("eth_chainId").unwrap()];
            let error = measure(&plan(&[url], &requests, None)).err().map(|error| format!("{error:#}"));
            assert!(error.as_ref().is_some_and(|error| error.contains(word)), "{error:?}");
            server.join().unwrap();
        }
    }
}

//! Network namespaces that live as long as a thread.

// Entering a namespace and looking up an interface in it are system calls without a safe wrapper here.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    io,
    process::Command,
    sync::mpsc::{Sender, channel},
    thread::JoinHandle,
};

type Task = Box<dyn FnOnce() + Send>;

/// A network namespace with a thread inside. Both end when this is dropped.
pub struct Namespace {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    /// Names the namespace for `ip link ... netns`.
    pub thread_id: i32,
}

impl Namespace {
    /// # Errors
    /// If the process may not create namespaces.
    pub fn new() -> io::Result<Self> {
        let (tasks, queue) = channel::<Task>();
        let (ready, started) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: both calls take no pointers; only this thread changes its namespace.
            let result = unsafe {
                match libc::unshare(libc::CLONE_NEWNET) {
                    0 => Ok(libc::gettid()),
                    _ => Err(io::Error::last_os_error()),
                }
            };
            if ready.send(result).is_ok() {
                queue.iter().for_each(|task| task());
            }
        });
        let thread_id = started.recv().expect("the thread answers")?;
        Ok(Self { tasks: Some(tasks), thread: Some(thread), thread_id })
    }

    /// Runs a function in the namespace. A panic in it is one here.
    pub fn run<T: Send + 'static>(&self, function: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, result) = channel();
        let task = move || {
            let _ = sender.send(function());
        };
        self.tasks.as_ref().expect("not dropped").send(Box::new(task)).expect("the thread runs");
        result.recv().expect("the function did not panic")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs `ip` with arguments separated by spaces.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs (Debian: iproute2)");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Index of an interface of this thread's namespace.
pub fn interface_index(name: &str) -> u32 {
    let text = CString::new(name).expect("no zero byte");
    // SAFETY: a C string that outlives the call.
    let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
    assert_ne!(index, 0, "no interface {name}");
    index
}

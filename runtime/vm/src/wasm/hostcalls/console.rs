//! Functions of `console`, which validation accepts on development chains only. They have prices like other host calls
//! and change nothing; the output goes only to a trace.

use super::{Call, Frame, Outcome, perform};
use corniche_abi::{CONSOLE_MODULE, HostCall};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Frame>, console_used: &Arc<AtomicBool>) -> wasmtime::Result<()> {
    macro_rules! hook {
        ($name:ident($call:ident $(, $argument:ident: $ty:ty)*) -> $result:ty $body:block) => {{
            let hook: &HostCall = corniche_abi::console(stringify!($name))
                .ok_or_else(|| wasmtime::Error::msg("a host call is missing in the table"))?;
            let console_used = Arc::clone(console_used);
            let log = move |caller: Caller<'_, Frame>, $($argument: $ty),*| -> wasmtime::Result<$result> {
                console_used.store(true, Ordering::Relaxed);
                perform(caller, hook.name, hook.ink, |$call: &mut Call<'_>| -> Outcome<$result> { $body })
            };
            linker.func_wrap(CONSOLE_MODULE, hook.name, log)?;
        }};
    }

    hook!(log_txt(call, text: i32, length: i32) -> () {
        let text = call.read_bytes(text, length)?;
        call.host().console_log(&text);
        Ok(())
    });
    hook!(log_i32(call, number: i32) -> () { call.say_number(number).map(drop) });
    hook!(log_i64(call, number: i64) -> () { call.say_number(number).map(drop) });
    hook!(tee_i32(call, number: i32) -> i32 { call.say_number(number) });
    hook!(tee_i64(call, number: i64) -> i64 { call.say_number(number) });
    Ok(())
}

impl Call<'_> {
    fn say_number<N: ToString>(&mut self, number: N) -> Outcome<N> {
        self.host().console_log(number.to_string().as_bytes());
        Ok(number)
    }
}

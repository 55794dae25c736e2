//! The process contract: the events that go out.

use std::{
    io::{self, Write},
    process,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};

use crate::contract::CONTRACT;

fn emit(event: Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{event}").and_then(|()| out.flush()); // whom should it be told?
}

pub fn fail(message: &str) {
    emit(json!({"event": "error", "error": {"message": message}}));
}

pub fn capabilities() {
    emit(json!({"event": "capabilities", "capabilities": crate::catalog::capabilities()}));
}

/// Says that a server listens, and over TLS what its clients must trust; or that a client has
/// its connections.
pub fn ready(address: &str, root_pem: Option<&str>, settings: Value) {
    let mut ready = json!({
        "contract": CONTRACT, "address": address, "pid": process::id(), "runtime": runtime(), "settings": settings,
    });
    if let Some(root) = root_pem {
        ready["root_pem"] = root.into();
    }
    emit(json!({"event": "ready", "ready": ready}));
}

fn runtime() -> String {
    let built = if cfg!(debug_assertions) { "debug" } else { "opt-level 3, thin LTO, panic=abort" };
    format!("rustc {}, {}, {built}, {} threads", env!("PEER_RUSTC"), env!("PEER_CRATES"), crate::threads())
}

pub fn progress(warming: bool, done: u64, fraction: f64) {
    emit(json!({"event": "progress", "progress": {"warming": warming, "done": done, "fraction": fraction}}));
}

/// Says that a client rests until it gets its slices.
pub fn rests(done: u64, mean_ns: u64) {
    let progress =
        json!({"warming": true, "settled": true, "paused": true, "done": done, "fraction": 0, "mean_ns": mean_ns});
    emit(json!({"event": "progress", "progress": progress}));
}

/// What a server cost is seen from outside.
pub fn served() {
    emit(json!({"event": "result", "result": {"server": {}}}));
}

/// Whether a client has told its result, or is about to.
static MEASURED: AtomicBool = AtomicBool::new(false);

pub fn has_measured() -> bool {
    MEASURED.load(Ordering::Acquire)
}

pub fn measured(client: Value) {
    MEASURED.store(true, Ordering::Release);
    emit(json!({"event": "result", "result": {"client": client}}));
}

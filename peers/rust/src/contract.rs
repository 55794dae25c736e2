//! The process contract: a spec in, events out.

use std::{
    io::{self, Write},
    net::SocketAddr,
    process,
};

use serde::Deserialize;
use serde_json::{Value, json};

const CONTRACT: u32 = 1;

#[derive(Deserialize)]
pub struct Spec {
    contract: u32,
    #[serde(default)]
    role: String,
    #[serde(default)]
    stack: String,
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    workload: Workload,
}

#[derive(Deserialize, Default)]
struct Workload {
    name: String,
    #[serde(default)]
    request_bytes: u64,
    #[serde(default)]
    response_bytes: u64,
}

impl Spec {
    pub fn parse(line: &str) -> Result<Spec, String> {
        let spec: Spec = serde_json::from_str(line).map_err(|e| format!("worker spec: {e}"))?;
        if spec.contract != CONTRACT {
            return Err(format!(
                "worker spec: contract version {}: this worker implements version {CONTRACT}",
                spec.contract
            ));
        }
        if spec.role != "server" {
            return Err(format!("worker spec: role {:?}: this peer is a server only", spec.role));
        }
        let w = &spec.workload;
        if w.name != "echo" {
            return Err(format!("workload {:?}: this peer serves echo, without options", w.name));
        }
        if w.request_bytes != w.response_bytes {
            return Err("sizes: this peer answers echo with what came, not with another size".into());
        }
        Ok(spec)
    }

    /// The stack's name. Options of the client's end are not looked at; others are refused.
    pub fn variant(&self) -> Result<String, String> {
        let (name, options) = self.stack.split_once(':').unwrap_or((&self.stack, ""));
        for option in options.split(',').filter(|o| !o.is_empty()) {
            let key = option.split('=').next().unwrap_or_default();
            if !["server", "inflight", "conn", "client", "messages"].contains(&key) {
                return Err(format!("variant {}: the Rust peer does not have {option}", self.stack));
            }
        }
        Ok(name.to_string())
    }
}

fn emit(event: Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{event}").and_then(|()| out.flush()); // whom should it be told?
}

pub fn fail(message: &str) {
    emit(json!({"event": "error", "error": {"message": message}}));
}

pub fn ready(address: &SocketAddr) {
    let runtime = format!(
        "rustc {}, tonic {}, hyper {}, prost {}, {}",
        env!("PEER_RUSTC"),
        env!("PEER_TONIC"),
        env!("PEER_HYPER"),
        env!("PEER_PROST"),
        if cfg!(debug_assertions) { "debug" } else { "opt-level 3, thin LTO, panic=abort" },
    );
    emit(json!({"event": "ready", "ready": {
        "contract": CONTRACT, "address": address.to_string(), "pid": process::id(), "runtime": runtime,
    }}));
}

/// What it cost is seen from outside.
pub fn served() {
    emit(json!({"event": "result", "result": {"server": {}}}));
}

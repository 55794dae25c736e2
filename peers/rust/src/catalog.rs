//! What this worker can do, said once.

use serde_json::{Value, json};

use crate::{contract::CONTRACT, load::Mode};

pub struct Stack {
    pub name: &'static str,
    pub options: &'static [StackOption],
    pub workloads: &'static [&'static str],
}

pub struct StackOption {
    pub key: &'static str,
    /// The default is the first.
    pub values: &'static [&'static str],
}

const IO: StackOption = StackOption { key: "io", values: &["epoll", "uring"] };
const LIBRARY: StackOption = StackOption { key: "library", values: &["tonic", NTEX] };

/// The value of the option library that is not tonic.
pub const NTEX: &str = "ntex";
/// The workloads of ntex-grpc, which has no streams.
pub const NTEX_WORKLOADS: &[&str] = &["echo", "ping"];

pub const STACKS: &[Stack] = &[
    Stack { name: "tcp", options: &[IO], workloads: &["echo"] },
    Stack { name: "h1", options: &[], workloads: &["echo"] },
    Stack { name: "h2", options: &[], workloads: &["echo"] },
    Stack { name: "h3", options: &[], workloads: &["echo"] },
    Stack { name: "grpc", options: &[LIBRARY], workloads: &["echo", "ping", "chat"] },
];

pub const CONTROLS: [&str; 1] = ["slices"];

pub fn find(name: &str) -> Result<&'static Stack, String> {
    let names: Vec<_> = STACKS.iter().map(|s| s.name).collect();
    let found = STACKS.iter().find(|s| s.name == name);
    found.ok_or_else(|| format!("stack {name:?}: this peer has {}", names.join(", ")))
}

/// The capabilities event's part. All modes of connection are possible on all stacks: over
/// tcp and h1, which carry a call at a time, callers wait for a connection in turn.
pub fn capabilities() -> Value {
    let mut stacks = serde_json::Map::new();
    let mut workloads: Vec<&str> = Vec::new();
    for stack in STACKS {
        let keys: Vec<_> = stack.options.iter().map(|o| o.key).collect();
        stacks.insert(stack.name.into(), json!(keys));
        workloads.extend(stack.workloads.iter().filter(|w| !workloads.contains(w)).collect::<Vec<_>>());
    }
    json!({
        "contract": CONTRACT, "roles": ["server", "client"], "stacks": stacks,
        "workloads": workloads,
        "loads": ["closed"], "connections": Mode::NAMES, "controls": CONTROLS,
    })
}

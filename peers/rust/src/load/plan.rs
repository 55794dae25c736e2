//! What is asked of a client, and the window, which is the same for all callers.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::sync::Notify;

use super::turns::Turns;
use crate::contract::{Client, Spec, Workload};

/// The contract lets a worker choose its warm-up between two bounds; this is its choice.
const WARM_UP_NS: i64 = 1_000_000_000;
/// How far ahead the first call lies, so that every caller is there.
const NOTICE_NS: i64 = 20_000_000;

/// How connections are shared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// This number for all callers, which take turns.
    Pool(usize),
    /// One a caller.
    PerWorker,
    /// One a call.
    New,
}

impl Mode {
    pub const NAMES: [&'static str; 4] = ["shared", "per-worker", "pool", "new"];

    fn parse(name: &str, clients: usize) -> Result<Mode, String> {
        match name.split_once(':') {
            None if name == "shared" => Ok(Mode::Pool(1)),
            None if name == "per-worker" => Ok(Mode::PerWorker),
            None if name == "pool" => Ok(Mode::Pool(clients)),
            None if name == "new" => Ok(Mode::New),
            Some(("pool", size)) => {
                let size = size.parse().ok().filter(|n| (1..=1 << 16).contains(n));
                size.map(Mode::Pool).ok_or_else(|| format!("connection {name:?}: want pool:N, of 1 to 65536"))
            }
            _ => Err(format!("connection {name:?}: this peer has {}", Mode::NAMES.join(", "))),
        }
    }

    /// How many connections are kept.
    pub fn want(self, clients: usize) -> usize {
        match self {
            Mode::Pool(size) => size,
            Mode::PerWorker => clients,
            Mode::New => 0,
        }
    }
}

/// What is to be done.
pub struct Plan {
    pub carrier: &'static str,
    pub address: String,
    pub workload: Workload,
    pub client: Client,
    pub mode: Mode,
    pub window: Window,
}

impl Plan {
    pub fn of(spec: Spec, carrier: &'static str) -> Result<Plan, String> {
        let client = spec.client.ok_or("worker spec: a client needs the part client")?;
        let load = &client.load;
        if load.model != "closed" {
            return Err(format!("load model {:?}: this peer's client has closed alone", load.model));
        }
        if load.in_flight_limit > 0 {
            return Err("load in_flight_limit: this peer's client has no limit but its callers".into());
        }
        if client.calls_file.is_empty() {
            return Err(
                "calls_file is empty: this peer's client writes its calls down, and works no figures out".into()
            );
        }
        if client.clients == 0 || client.clients > 1 << 16 {
            return Err(format!("clients {}: want 1 to 65536", client.clients));
        }
        if (load.requests_per_client > 0) == (load.duration_ns > 0) {
            return Err("load: want either requests_per_client or duration_ns".into());
        }
        if client.block && (load.duration_ns <= 0 || load.warm_up_at_most_ns <= 0) {
            return Err("a client of a block: want duration_ns and a warm-up".into());
        }
        let mode = Mode::parse(&client.connection, client.clients)?;
        let window = Window { remaining: AtomicUsize::new(client.clients), ..Window::default() };
        Ok(Plan { carrier, address: spec.address, workload: spec.workload, client, mode, window })
    }

    /// How long calls go on before the window.
    pub fn warm_up_ns(&self) -> i64 {
        let load = &self.client.load;
        WARM_UP_NS.max(load.warm_up_at_least_ns).min(load.warm_up_at_most_ns).max(0)
    }

    /// How many calls a caller makes in the window; none: as many as it has time for.
    pub fn quota(&self, caller: usize) -> Option<u64> {
        let load = &self.client.load;
        (load.requests_per_client > 0).then(|| load.requests_per_client + u64::from(caller < load.extra_requests))
    }
}

/// The window, and how far callers are with it.
#[derive(Default)]
pub struct Window {
    edges: OnceLock<Edges>,
    /// Callers that may still have a call in flight that began in the window.
    pub remaining: AtomicUsize,
    pub cancelled: AtomicBool,
    /// The slices of a client in a block, once they are known.
    pub turns: OnceLock<Turns>,
    /// Tells that a slice begins.
    pub turn: Notify,
}

/// Instants of CLOCK_MONOTONIC.
#[derive(Clone, Copy)]
pub struct Edges {
    pub first_call: i64,
    /// When a client in a block rests; otherwise the maximum.
    pub rest: i64,
    pub begin: i64,
    /// The maximum, where the number of calls ends the window.
    pub end: i64,
}

impl Window {
    /// Fixes the window. Callers may start then.
    pub fn open(plan: &Plan) -> Edges {
        let first_call = super::now() + NOTICE_NS;
        let begin = first_call + plan.warm_up_ns();
        let end = if plan.client.load.duration_ns > 0 { begin + plan.client.load.duration_ns } else { i64::MAX };
        let edges = match plan.client.block {
            true => Edges { first_call, rest: begin, begin: i64::MAX, end: i64::MAX }, // until the turns are known
            false => Edges { first_call, rest: i64::MAX, begin, end },
        };
        *plan.window.edges.get_or_init(|| edges)
    }

    /// The edges, once they are known.
    pub fn edges(&self) -> Option<Edges> {
        let edges = self.edges.get().copied()?;
        Some(self.turns.get().map_or(edges, |turns| turns.edges(edges)))
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn modes_of_connections() {
        for (name, want) in [("shared", 1), ("per-worker", 7), ("pool", 7), ("pool:3", 3), ("new", 0)] {
            assert_eq!(Mode::parse(name, 7).map(|m| m.want(7)), Ok(want), "{name}");
        }
        for name in ["", "pool:0", "pool:x", "resumed", "shared:2"] {
            assert!(Mode::parse(name, 7).is_err(), "{name}");
        }
    }
}

//! The connections of a client, counted where they are opened and closed.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU32, Ordering},
};

use serde_json::{Value, json};

use super::{Plan, now};

/// The counts of a client's connections, and the addresses that they come from.
pub struct Connections {
    plan: Arc<Plan>,
    opened: AtomicI64,
    failed: AtomicI64,
    open: AtomicI64,
    opened_within: AtomicI64,
    failed_within: AtomicI64,
    dialed: AtomicU32,
}

impl Connections {
    pub fn new(plan: &Arc<Plan>) -> Arc<Connections> {
        Arc::new(Connections {
            plan: plan.clone(),
            opened: AtomicI64::new(0),
            failed: AtomicI64::new(0),
            open: AtomicI64::new(0),
            opened_within: AtomicI64::new(0),
            failed_within: AtomicI64::new(0),
            dialed: AtomicU32::new(0),
        })
    }

    /// Counts a connection that is open until the result is dropped.
    pub fn opened(self: &Arc<Self>) -> Open {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        if self.in_window() {
            self.opened_within.fetch_add(1, Ordering::Relaxed);
        }
        Open(self.clone())
    }

    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        if self.in_window() {
            self.failed_within.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn in_window(&self) -> bool {
        let Some(edges) = self.plan.window.edges() else { return false };
        (edges.begin..edges.end).contains(&now())
    }

    /// The next address of 127.0.0.0/8 to come from, where the spec asks for several.
    pub fn source(&self) -> Option<std::net::Ipv4Addr> {
        let sources = self.plan.client.sources;
        (sources > 1 && self.plan.address.starts_with("127.")).then(|| {
            let turn = self.dialed.fetch_add(1, Ordering::Relaxed) % sources;
            std::net::Ipv4Addr::from_bits(0x7f00_0001 + turn)
        })
    }

    /// The part of the result.
    pub fn tell(&self) -> Value {
        let get = |count: &AtomicI64| count.load(Ordering::Relaxed);
        let opened = get(&self.opened_within);
        json!({
            "mode": self.plan.client.connection, "want": self.plan.mode.want(self.plan.client.clients),
            "total": {"opened": get(&self.opened), "failed": get(&self.failed), "open": get(&self.open)},
            "during": opened,
            "window": {"opened": opened, "failed": get(&self.failed_within), "open": get(&self.open)},
        })
    }
}

/// An open connection, as far as it is counted.
pub struct Open(Arc<Connections>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

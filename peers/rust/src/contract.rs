//! The process contract: the spec that comes in.

use serde::Deserialize;

use crate::catalog;

pub const CONTRACT: u32 = 1;

#[derive(Deserialize)]
pub struct Spec {
    contract: u32,
    #[serde(default)]
    pub role: String,
    #[serde(default)]
    stack: String,
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    pub workload: Workload,
    pub client: Option<Client>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Workload {
    pub name: String,
    pub request_bytes: usize,
    pub response_bytes: usize,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Client {
    pub clients: usize,
    pub connection: String,
    pub root_pem: String,
    pub skip_verify: bool,
    pub sources: u32,
    pub seed: u64,
    pub calls_file: String,
    pub block: bool,
    pub load: Load,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Load {
    pub model: String,
    pub requests_per_client: u64,
    pub extra_requests: usize,
    pub duration_ns: i64,
    pub in_flight_limit: u64,
    pub warm_up_at_least_ns: i64,
    pub warm_up_at_most_ns: i64,
    pub drain_ns: i64,
}

/// A line of the input after the spec.
#[derive(Deserialize)]
pub struct Order {
    control: String,
    pub at_ns: i64,
    pub slices: Vec<Slice>,
}

/// A stretch of a window: calls are sent from `send_ns` on, and measured if they begin between
/// `from_ns` and `to_ns`.
#[derive(Deserialize)]
pub struct Slice {
    pub send_ns: i64,
    pub from_ns: i64,
    pub to_ns: i64,
}

impl Order {
    /// Returns nothing for a control that this worker does not know.
    pub fn parse(line: &str) -> Option<Order> {
        serde_json::from_str(line).ok().filter(|order: &Order| catalog::CONTROLS.contains(&order.control.as_str()))
    }
}

/// A variant of a stack: its name, and its options with their values.
pub struct Variant {
    pub stack: &'static catalog::Stack,
    options: Vec<(String, String)>,
}

impl Variant {
    pub fn has(&self, key: &str, value: &str) -> bool {
        self.options.iter().any(|(k, v)| k == key && v == value)
    }

    /// The code that carries the variant: ntex, or the stack's name.
    pub fn carrier(&self) -> &'static str {
        if self.has("library", catalog::NTEX) { catalog::NTEX } else { self.stack.name }
    }

    fn workloads(&self) -> &'static [&'static str] {
        if self.carrier() == catalog::NTEX { catalog::NTEX_WORKLOADS } else { self.stack.workloads }
    }
}

impl Spec {
    pub fn parse(line: &str) -> Result<Spec, String> {
        let spec: Spec = serde_json::from_str(line).map_err(|e| format!("worker spec: {e}"))?;
        if spec.contract != CONTRACT {
            let asked = spec.contract;
            return Err(format!("worker spec: contract version {asked}: this worker implements version {CONTRACT}"));
        }
        match spec.role.as_str() {
            "server" | "client" | "capabilities" => Ok(spec),
            other => Err(format!("worker spec: role {other:?}: this worker plays server and client")),
        }
    }

    pub fn variant(&self) -> Result<Variant, String> {
        let (name, options) = self.stack.split_once(':').unwrap_or((&self.stack, ""));
        let stack = catalog::find(name)?;
        let mut variant = Variant { stack, options: Vec::new() };
        for option in options.split(',').filter(|o| !o.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            // Every stack has these. They are not the adapter's.
            if ["server", "client", "peer", "inflight", "conn", "messages"].contains(&key) {
                continue;
            }
            let Some(known) = stack.options.iter().find(|o| o.key == key) else {
                return Err(format!("variant {}: the Rust peer does not have {option}", self.stack));
            };
            if !known.values.contains(&value) {
                let values = known.values.join(", ");
                return Err(format!("variant {}: {key}={value}: want one of {values}", self.stack));
            }
            variant.options.push((key.into(), value.into()));
        }
        self.check_workload(&variant)?;
        Ok(variant)
    }

    fn check_workload(&self, variant: &Variant) -> Result<(), String> {
        let w = &self.workload;
        if !variant.workloads().contains(&w.name.as_str()) {
            let known = variant.workloads().join(", ");
            return Err(format!("workload {:?}: over {} this peer has {known}, without options", w.name, self.stack));
        }
        if w.request_bytes != w.response_bytes {
            return Err("sizes: this peer answers with what came, not with another size".into());
        }
        if w.request_bytes > crate::messages::MAX_DATA {
            return Err(format!("sizes: {} bytes: at most {} are carried", w.request_bytes, crate::messages::MAX_DATA));
        }
        Ok(())
    }
}

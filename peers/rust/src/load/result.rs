//! The report of a load: the calls file, and the result.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

use serde_json::{Value, json};

use super::{Caller, Connections, Failure, Plan};
use crate::events;

/// Writes the calls file and prints the result.
pub fn report(plan: &Plan, callers: Vec<Caller>, connections: &Connections) -> Result<(), String> {
    let edges = plan.window.edges().expect("the window was opened");
    // Callers note failures apart; here they get one list.
    let mut failures: Vec<Failure> = Vec::new();
    let places: Vec<Vec<u32>> = callers.iter().map(|c| merge(&mut failures, &c.failures)).collect();
    let counted = |sent: i64| (edges.begin..edges.end).contains(&sent);
    let last = callers.iter().flat_map(|c| &c.calls).filter(|c| counted(c.sent)).map(|c| c.ended).max();
    let end = if edges.end < i64::MAX { edges.end } else { last.unwrap_or(edges.begin + 1) };
    let path = &plan.client.calls_file;
    let written = write(path, &callers, &places).map_err(|e| format!("write the calls to {path}: {e}"))?;
    let failures: Vec<Value> =
        failures.iter().map(|f| json!({"class": f.class, "code": f.code, "example": f.example})).collect();
    events::measured(json!({
        "begin_ns": edges.begin, "end_ns": end, "calls_written": written,
        "failures": failures, "connections": connections.tell(),
    }));
    Ok(())
}

/// Adds failures to the list, and returns the number of each there.
fn merge(all: &mut Vec<Failure>, own: &[Failure]) -> Vec<u32> {
    own.iter()
        .map(|failure| {
            let known = all.iter().position(|f| f.is_like(failure));
            let place = known.unwrap_or_else(|| {
                all.push(failure.clone());
                all.len() - 1
            });
            place as u32 + 1
        })
        .collect()
}

fn write(path: &str, callers: &[Caller], places: &[Vec<u32>]) -> io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut written = 0;
    for (caller, places) in callers.iter().zip(places) {
        for call in &caller.calls {
            let failure = if call.failure == 0 { 0 } else { places[call.failure as usize - 1] };
            let mut entry = [0; 32];
            entry[..8].copy_from_slice(&call.sent.to_le_bytes()); // due: at once
            entry[8..16].copy_from_slice(&call.sent.to_le_bytes());
            entry[16..24].copy_from_slice(&call.ended.to_le_bytes());
            entry[24..28].copy_from_slice(&(caller.index as u32).to_le_bytes());
            entry[28..].copy_from_slice(&failure.to_le_bytes());
            file.write_all(&entry)?;
            written += 1;
        }
    }
    file.flush()?;
    Ok(written)
}

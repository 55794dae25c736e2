//! The watch over a load: it tells the progress, and cancels what does not end.

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::Duration,
};

use super::{Plan, caller::Done, now, plan::Edges};
use crate::events;

/// The time between two progress events.
const TELL_NS: i64 = 250_000_000;
const LOOK: Duration = Duration::from_millis(25);

/// Watches until `ended` says that all callers have ended. `cancel` is called once, where
/// calls in flight are to be given up.
pub fn watch(plan: &Plan, edges: Edges, done: &[Arc<Done>], ended: &mpsc::Receiver<()>, mut cancel: impl FnMut()) {
    let drain = plan.client.load.drain_ns.max(0);
    let quota: u64 = (0..plan.client.clients).filter_map(|caller| plan.quota(caller)).sum();
    let (mut told, mut before, mut last_done, mut last_ended) = (now(), 0, 0, edges.begin);
    while ended.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        let instant = now();
        let count: u64 = done.iter().map(|d| d.get()).sum();
        if instant < edges.begin {
            before = count;
        }
        if count != last_done || instant < edges.begin {
            (last_done, last_ended) = (count, instant);
        }
        let waited = if quota > 0 { instant - last_ended } else { instant.saturating_sub(edges.end) };
        if waited > drain && !plan.window.cancelled.swap(true, Ordering::Relaxed) {
            cancel();
        }
        if instant - told >= TELL_NS {
            told = instant;
            let share = match quota {
                0 => (instant - edges.begin) as f64 / (edges.end - edges.begin) as f64,
                _ => (count - before) as f64 / quota as f64,
            };
            let warming = instant < edges.begin;
            events::progress(warming, count, if warming { 0.0 } else { share.min(1.0) });
        }
    }
}

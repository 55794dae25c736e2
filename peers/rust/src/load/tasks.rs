//! The closed loop on tokio: a task a caller, for the stacks whose libraries live there.

use std::sync::{Arc, mpsc};

use tokio::{runtime::Runtime, sync::oneshot};

use super::{Caller, Connections, Failure, Filling, Message, Next, Plan, Window, now, report, watch::watch};
use crate::{events, settings};

/// What makes a caller's calls.
pub trait Wire: Send + 'static {
    fn call(&mut self, request: &Message) -> impl Future<Output = Result<Message, Failure>> + Send;
}

/// The same for a library whose connections cannot leave their thread.
pub trait LocalWire: 'static {
    fn call(&mut self, request: &Message) -> impl Future<Output = Result<Message, Failure>>;
}

impl<W: Wire> LocalWire for W {
    fn call(&mut self, request: &Message) -> impl Future<Output = Result<Message, Failure>> {
        Wire::call(self, request)
    }
}

/// Runs the load over the callers' wires.
pub fn run<W: Wire>(
    runtime: &Runtime,
    plan: &Arc<Plan>,
    connections: &Arc<Connections>,
    wires: Vec<W>,
) -> Result<(), String> {
    load(plan, connections, |jobs| {
        let tasks: Vec<_> = jobs.into_iter().zip(wires).map(|(job, wire)| runtime.spawn(job.drive(wire))).collect();
        move || {
            runtime.block_on(async {
                let mut ended = Vec::new();
                for task in tasks {
                    ended.push(task.await.expect("no caller panics"));
                }
                ended.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()
            })
        }
    })
}

/// Runs the load. `start` begins the callers' jobs, and returns what waits for their ends; that
/// returns the callers, and the wires, which stay open until they are counted.
pub fn load<K, E: FnOnce() -> (Vec<Caller>, K)>(
    plan: &Arc<Plan>,
    connections: &Arc<Connections>,
    start: impl FnOnce(Vec<Job>) -> E,
) -> Result<(), String> {
    events::ready(&plan.address, None, settings::of(plan.carrier, "client"));
    let edges = Window::open(plan);
    let (say_ended, ended) = mpsc::channel();
    let (mut jobs, mut cancels, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..plan.client.clients {
        let count = Arc::new(super::caller::Done::default());
        done.push(count.clone());
        let (cancel, cancelled) = oneshot::channel::<()>();
        cancels.push(cancel);
        jobs.push(Job {
            caller: Caller::new(plan, edges, index, count),
            filling: Filling::new(plan, index),
            first_call: edges.first_call,
            cancelled,
            _say_ended: say_ended.clone(),
        });
    }
    drop(say_ended);
    let wait = start(jobs);
    watch(plan, edges, &done, &ended, || cancels.clear());
    let (callers, _wires) = wait();
    report(plan, callers, connections)
}

/// A caller's part of the load.
pub struct Job {
    caller: Caller,
    filling: Filling,
    first_call: i64,
    cancelled: oneshot::Receiver<()>,
    _say_ended: mpsc::Sender<()>, // the last one ends the watch
}

impl Job {
    /// Makes the caller's calls, on tokio.
    pub async fn drive<W: LocalWire>(self, mut wire: W) -> (Caller, W) {
        let Job { mut caller, mut filling, first_call, mut cancelled, _say_ended } = self;
        let wait = first_call - now();
        tokio::time::sleep(std::time::Duration::from_nanos(wait.max(0) as u64)).await;
        let plan = caller.plan.clone();
        loop {
            let request = filling.next();
            let sent = loop {
                match caller.begin() {
                    Next::Call(sent) => break sent,
                    Next::Rest(_) => rest(&mut caller, &plan).await,
                    Next::End => return (caller, wire),
                }
            };
            let outcome = tokio::select! {
                biased;
                outcome = wire.call(request) => outcome,
                _ = &mut cancelled => Err(Failure::cancelled()),
            };
            let ended = now();
            let verdict = outcome.and_then(|answer| {
                if answer == *request { Ok(()) } else { Err(Failure::wrong_answer(describe(request, &answer))) }
            });
            let failed = verdict.is_err();
            caller.end(sent, ended, verdict);
            if failed {
                tokio::task::yield_now().await; // a failure may have taken no time at all
            }
        }
    }
}

/// Rests until a slice begins. It asks once more, since one may have begun since the last look.
async fn rest(caller: &mut Caller, plan: &Plan) {
    let turn = plan.window.turn.notified();
    if let Next::Rest(_) = caller.begin() {
        turn.await;
    }
}

fn describe(request: &Message, answer: &Message) -> String {
    format!(
        "asked with number {} and {} bytes, answered with number {} and {} bytes",
        request.number,
        request.data.len(),
        answer.number,
        answer.data.len()
    )
}

//! The closed loop on tokio: a task a caller, for the stacks whose libraries live there.

use std::sync::{Arc, mpsc};

use tokio::{runtime::Runtime, sync::oneshot};

use super::{Caller, Connections, Failure, Filling, Message, Next, Plan, Window, now, report, watch::watch};
use crate::{events, settings};

/// What makes a caller's calls.
pub trait Wire: Send + 'static {
    fn call(&mut self, request: &Message) -> impl Future<Output = Result<Message, Failure>> + Send;
}

/// Runs the load over the callers' wires.
pub fn run<W: Wire>(
    runtime: &Runtime,
    plan: &Arc<Plan>,
    connections: &Arc<Connections>,
    wires: Vec<W>,
) -> Result<(), String> {
    events::ready(&plan.address, None, settings::of(plan.carrier, "client"));
    let edges = Window::open(plan);
    let (say_ended, ended) = mpsc::channel();
    let (mut tasks, mut cancels, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for (index, wire) in wires.into_iter().enumerate() {
        let count = Arc::new(super::caller::Done::default());
        done.push(count.clone());
        let caller = Caller::new(plan, edges, index, count);
        let filling = Filling::new(plan, index);
        let (cancel, cancelled) = oneshot::channel::<()>();
        cancels.push(cancel);
        let say_ended = say_ended.clone();
        tasks.push(runtime.spawn(async move {
            let wait = edges.first_call - now();
            tokio::time::sleep(std::time::Duration::from_nanos(wait.max(0) as u64)).await;
            let ended = drive(caller, filling, wire, cancelled).await;
            drop(say_ended); // the last one ends the watch
            ended
        }));
    }
    drop(say_ended);
    watch(plan, edges, &done, &ended, || cancels.clear());
    // The wires keep their connections open until these have been counted.
    let (callers, _wires): (Vec<_>, Vec<_>) = runtime.block_on(async {
        let mut ended = Vec::new();
        for task in tasks {
            ended.push(task.await.expect("no caller panics"));
        }
        ended.into_iter().unzip()
    });
    report(plan, callers, connections)
}

async fn drive<W: Wire>(
    mut caller: Caller,
    mut filling: Filling,
    mut wire: W,
    mut cancelled: oneshot::Receiver<()>,
) -> (Caller, W) {
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

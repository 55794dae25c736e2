//! The client: connections and their callers are spread over threads, since a connection of ntex's
//! cannot leave its thread.

use std::{
    cell::RefCell,
    marker::PhantomData,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, mpsc},
    thread,
};

use ntex_grpc::{
    ByteString, Bytes, MethodDef,
    client::{ClientError, Request},
};
use ntex_h2::client::SimpleClient;
use ntex_http::uri::Scheme;
use ntex_rt::System;
use tokio::sync::{Mutex, oneshot};

use super::Payload;
use crate::{
    dial,
    load::{
        Caller, Connections, Failure, Message, Mode, Plan,
        tasks::{self, Job, LocalWire},
    },
    messages::{ECHO, timestamp},
};

pub fn measure(plan: Arc<Plan>) -> Result<(), String> {
    match plan.workload.name.as_str() {
        "ping" => run::<Ping>(&plan),
        _ => run::<Echo>(&plan),
    }
}

fn run<M: Method>(plan: &Arc<Plan>) -> Result<(), String> {
    let address = dial::parse(&plan.address)?;
    let connections = Connections::new(plan);
    let clients = plan.client.clients;
    let kept = plan.mode.want(clients);
    let crews = crate::threads().min(if kept > 0 { kept } else { clients });
    let (say_open, open) = mpsc::channel();
    let mut hand_over = Vec::new();
    for index in 0..crews {
        let (hand, work) = oneshot::channel();
        hand_over.push(hand);
        let target = Target { address, authority: plan.address.as_str().into(), connections: connections.clone() };
        let links = (index..kept).step_by(crews).count();
        let (mode, say_open) = (plan.mode, say_open.clone());
        thread::spawn(move || {
            System::new("ntex", ntex_net::DefaultRuntime).block_on(work_off::<M>(target, mode, links, say_open, work))
        });
    }
    for _ in 0..crews {
        let opened = open.recv().expect("a crew says whether its connections are open");
        opened.map_err(|f| format!("connect to {address}: {}", f.example))?;
    }
    tasks::load(plan, &connections, |jobs| {
        let mut shares: Vec<Vec<Job>> = hand_over.iter().map(|_| Vec::new()).collect();
        for (index, job) in jobs.into_iter().enumerate() {
            shares[index % crews].push(job);
        }
        let (say_ended, ended) = mpsc::channel();
        for (hand, jobs) in hand_over.into_iter().zip(shares) {
            let handed = hand.send(Work { jobs, say_ended: say_ended.clone() });
            assert!(handed.is_ok(), "a crew waits for its work");
        }
        drop(say_ended);
        // The crews keep their connections open until the process ends.
        move || (ended.into_iter().flatten().collect(), ())
    })
}

/// A crew's share of the load.
struct Work {
    jobs: Vec<Job>,
    say_ended: mpsc::Sender<Vec<Caller>>,
}

/// A crew's life, on its own thread: it opens its connections, and makes its callers' calls.
async fn work_off<M: Method>(
    target: Target,
    mode: Mode,
    links: usize,
    say_open: mpsc::Sender<Result<(), Failure>>,
    work: oneshot::Receiver<Work>,
) {
    let target = Rc::new(target);
    let mut slots = Vec::new();
    // In a mode that keeps none, one is opened all the same, to fail early if none can be.
    for _ in 0..links.max(1) {
        match target.open().await {
            Ok(link) => slots.push(Slot { link: RefCell::new(link), dialing: Mutex::new(()) }),
            Err(failure) => {
                let _ = say_open.send(Err(failure));
                return;
            }
        }
    }
    let slots: Vec<Rc<Slot>> = if mode == Mode::New { Vec::new() } else { slots.into_iter().map(Rc::new).collect() };
    let _ = say_open.send(Ok(()));
    let Ok(work) = work.await else { return }; // another crew could not connect
    let Work { jobs, say_ended } = work;
    let mut tasks = Vec::new();
    for (turn, job) in jobs.into_iter().enumerate() {
        let own = if mode == Mode::PerWorker { vec![slots[turn].clone()] } else { slots.clone() };
        let wire = Calls { target: target.clone(), slots: own, turn, method: PhantomData::<M> };
        tasks.push(ntex_rt::spawn(job.drive(wire)));
    }
    let mut callers = Vec::new();
    for task in tasks {
        callers.push(task.await.expect("no caller panics").0);
    }
    let _ = say_ended.send(callers);
    drop(say_ended); // whoever collects the callers waits for the last crew
    std::future::pending().await
}

/// Where connections go.
struct Target {
    address: SocketAddr,
    authority: ByteString,
    connections: Arc<Connections>,
}

impl Target {
    async fn open(&self) -> Result<SimpleClient, Failure> {
        let (stream, open) = dial::tcp(self.address, &self.connections).await?;
        let stream = stream.into_std().and_then(|stream| ntex_net::from_tcp_stream(stream, super::config()));
        let link = SimpleClient::new(stream.map_err(|e| Failure::of(&e))?, Scheme::HTTP, self.authority.clone());
        let closed = link.on_disconnect();
        ntex_rt::spawn(async move {
            closed.await;
            drop(open);
        });
        Ok(link)
    }
}

/// A place for a connection, which is opened anew when it is lost.
struct Slot {
    link: RefCell<SimpleClient>,
    dialing: Mutex<()>,
}

impl Slot {
    async fn link(&self, target: &Target) -> Result<SimpleClient, Failure> {
        if !self.lasts() {
            let _turn = self.dialing.lock().await;
            if !self.lasts() {
                let link = target.open().await?;
                self.link.replace(link);
            }
        }
        Ok(self.link.borrow().clone())
    }

    fn lasts(&self) -> bool {
        let link = self.link.borrow();
        !link.is_closed() && !link.is_disconnecting()
    }
}

/// A caller's wire: it takes turns between its connections, or opens one for each call.
struct Calls<M> {
    target: Rc<Target>,
    slots: Vec<Rc<Slot>>,
    turn: usize,
    method: PhantomData<M>,
}

impl<M: Method> LocalWire for Calls<M> {
    async fn call(&mut self, request: &Message) -> Result<Message, Failure> {
        self.turn += 1;
        let link = match self.slots.len() {
            0 => self.target.open().await?,
            slots => self.slots[self.turn % slots].link(&self.target).await?,
        };
        let asked = M::ask(request);
        let answer = Request::<_, M>::new(&link, &asked).send().await.map_err(failed)?;
        Ok(M::answered(answer.into_inner()))
    }
}

fn failed(error: ntex_error::Error<ClientError>) -> Failure {
    match &*error {
        ClientError::GrpcStatus(status, headers) => {
            let said = headers.get("grpc-message").and_then(|text| text.to_str().ok()).unwrap_or_default();
            Failure::application(status.code().into(), said)
        }
        _ => Failure::of(&error),
    }
}

/// A method of a service, and what is asked of it.
trait Method: MethodDef + 'static {
    fn ask(message: &Message) -> Self::Input;
    fn answered(answer: Self::Output) -> Message;
}

struct Echo;

impl MethodDef for Echo {
    const NAME: &'static str = "Echo";
    const PATH: ByteString = ByteString::from_static(ECHO);
    type Input = Payload;
    type Output = Payload;
}

impl Method for Echo {
    fn ask(message: &Message) -> Payload {
        let data = Bytes::copy_from_slice(&message.data);
        Payload { id: message.number, data, timestamp: timestamp(), answer_bytes: None }
    }

    fn answered(answer: Payload) -> Message {
        Message { number: answer.id, data: bytes::Bytes::copy_from_slice(&answer.data) }
    }
}

struct Ping;

impl MethodDef for Ping {
    const NAME: &'static str = "Ping";
    const PATH: ByteString = ByteString::from_static("/wirelab.ping.v1.PingService/Ping");
    type Input = ();
    type Output = ();
}

impl Method for Ping {
    fn ask(_: &Message) {}

    fn answered((): ()) -> Message {
        Message::default()
    }
}

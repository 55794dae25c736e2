//! How callers on tokio share connections: whose library carries many calls over one, whose
//! carries one at a time, and a connection for each call.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::load::{Failure, Message, Mode, Plan, tasks::Wire};

/// Opens connections to a server, and makes calls over them.
pub trait Connector: Send + Sync + 'static {
    type Link: Send + 'static;

    fn open(&self) -> impl Future<Output = Result<Self::Link, Failure>> + Send;
    fn call(&self, link: &mut Self::Link, request: &Message) -> impl Future<Output = Result<Message, Failure>> + Send;
    /// Whether another call can be made.
    fn lasts(link: &Self::Link) -> bool;
}

/// Opens a limited number of connections at a time, to fit into a backlog of 128.
const DIALS_AT_ONCE: usize = 64;

/// Opens the connections that are kept.
pub async fn open<C: Connector>(connector: &Arc<C>, plan: &Plan) -> Result<Vec<C::Link>, String> {
    let turns = Arc::new(Semaphore::new(DIALS_AT_ONCE));
    let mut opening = Vec::new();
    // In a mode that keeps none one is opened all the same, to fail early if none can be.
    for _ in 0..plan.mode.want(plan.client.clients).max(1) {
        let (connector, turns) = (connector.clone(), turns.clone());
        opening.push(tokio::spawn(async move {
            let _turn = turns.acquire().await;
            connector.open().await
        }));
    }
    let mut links = Vec::new();
    for one in opening {
        let opened = one.await.expect("no dialing panics");
        links.push(opened.map_err(|f| format!("connect to {}: {}", plan.address, f.example))?);
    }
    if plan.mode == Mode::New {
        links.clear();
    }
    Ok(links)
}

/// A caller's wire where a connection carries many calls at once: calls take turns between
/// connections.
pub struct Shared<C: Connector> {
    connector: Arc<C>,
    slots: Arc<Vec<AsyncMutex<C::Link>>>,
    own: Vec<C::Link>, // the slots' links as the caller knows them
    turn: usize,
    each: bool, // a connection for each call
}

impl<C: Connector<Link: Clone>> Shared<C> {
    pub fn wires(connector: &Arc<C>, links: Vec<C::Link>, plan: &Plan) -> Vec<Self> {
        let all: Vec<Arc<Vec<_>>> = if plan.mode == Mode::PerWorker {
            links.iter().map(|l| Arc::new(vec![AsyncMutex::new(l.clone())])).collect()
        } else {
            vec![Arc::new(links.iter().map(|l| AsyncMutex::new(l.clone())).collect())]
        };
        let wire = |caller: usize| Shared {
            connector: connector.clone(),
            slots: all[caller % all.len()].clone(),
            own: if plan.mode == Mode::PerWorker { vec![links[caller].clone()] } else { links.clone() },
            turn: caller,
            each: plan.mode == Mode::New,
        };
        (0..plan.client.clients).map(wire).collect()
    }

    /// A link that lasts, opened anew where need be.
    pub async fn link(&mut self) -> Result<C::Link, Failure> {
        if self.each {
            return self.connector.open().await;
        }
        self.turn = (self.turn + 1) % self.own.len();
        let own = &mut self.own[self.turn];
        if !C::lasts(own) {
            let mut slot = self.slots[self.turn].lock().await;
            if !C::lasts(&slot) {
                *slot = self.connector.open().await?;
            }
            *own = slot.clone();
        }
        Ok(own.clone())
    }
}

impl<C: Connector<Link: Clone>> Wire for Shared<C> {
    async fn call(&mut self, request: &Message) -> Result<Message, Failure> {
        let mut link = self.link().await?;
        self.connector.call(&mut link, request).await
    }
}

/// A caller's wire where a connection carries a call at a time: callers wait for one, in turn.
pub struct Exclusive<C: Connector> {
    connector: Arc<C>,
    pool: Arc<Pool<C::Link>>,
    each: bool, // a connection for each call
}

/// Connections that no call holds, and a permit for each that there may be.
struct Pool<L> {
    permits: Semaphore,
    free: Mutex<Vec<L>>,
}

impl<C: Connector> Exclusive<C> {
    pub fn wires(connector: &Arc<C>, links: Vec<C::Link>, plan: &Plan) -> Vec<Self> {
        let clients = plan.client.clients;
        let pool = |links: Vec<_>| Arc::new(Pool { permits: Semaphore::new(links.len()), free: Mutex::new(links) });
        let pools: Vec<_> = match plan.mode {
            Mode::PerWorker => links.into_iter().map(|link| pool(vec![link])).collect(),
            _ => vec![pool(links)],
        };
        let each = plan.mode == Mode::New;
        let wire =
            |caller: usize| Exclusive { connector: connector.clone(), pool: pools[caller % pools.len()].clone(), each };
        (0..clients).map(wire).collect()
    }
}

impl<C: Connector> Wire for Exclusive<C> {
    async fn call(&mut self, request: &Message) -> Result<Message, Failure> {
        if self.each {
            let mut link = self.connector.open().await?;
            return self.connector.call(&mut link, request).await;
        }
        let _permit = self.pool.permits.acquire().await;
        let free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut link = match free.filter(C::lasts) {
            Some(link) => link,
            None => self.connector.open().await?,
        };
        let answer = self.connector.call(&mut link, request).await;
        if C::lasts(&link) {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        }
        answer
    }
}

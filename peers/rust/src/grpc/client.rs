//! The client: channels, whose connections are counted as they dial them.

use std::{error::Error, net::SocketAddr, sync::Arc};

use hyper_util::rt::TokioIo;
use tokio::{runtime::Runtime, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use super::generated::{
    chat::chat_service_client::ChatServiceClient, echo::echo_service_client::EchoServiceClient,
    ping::ping_service_client::PingServiceClient,
};
use crate::{
    dial,
    links::{self, Connector, Shared},
    load::{Connections, Failure, Message, Plan, failure::code_name, tasks},
    messages::{ChatMessage, MAX_MESSAGE, Payload, Ping, timestamp},
};

pub fn measure(plan: Arc<Plan>) -> Result<(), String> {
    let runtime = crate::runtime()?;
    let connections = Connections::new(&plan);
    let dialing = Dialing {
        address: dial::parse(&plan.address)?,
        endpoint: Endpoint::from_shared(format!("http://{}", plan.address))
            .map_err(|e| format!("address {}: {e}", plan.address))?,
        connections: connections.clone(),
    };
    let chats = |wires: Vec<Shared<Chat>>| wires.into_iter().map(|shared| Chatting { shared, talk: None }).collect();
    match plan.workload.name.as_str() {
        "ping" => run(&runtime, &plan, &connections, Pings(dialing), |wires| wires),
        "chat" => run(&runtime, &plan, &connections, Chat(dialing), chats),
        _ => run(&runtime, &plan, &connections, Echo(dialing), |wires| wires),
    }
}

fn run<C: Connector<Link: Clone>, W: tasks::Wire>(
    runtime: &Runtime,
    plan: &Arc<Plan>,
    connections: &Arc<Connections>,
    connector: C,
    wires: impl FnOnce(Vec<Shared<C>>) -> Vec<W>,
) -> Result<(), String> {
    let connector = Arc::new(connector);
    let links = runtime.block_on(links::open(&connector, plan))?;
    tasks::run(runtime, plan, connections, wires(Shared::wires(&connector, links, plan)))
}

struct Dialing {
    address: SocketAddr,
    endpoint: Endpoint,
    connections: Arc<Connections>,
}

impl Dialing {
    /// A channel with its connection. When that is lost, tonic dials anew.
    async fn channel(&self) -> Result<Channel, Failure> {
        let (address, connections) = (self.address, self.connections.clone());
        let dial = service_fn(move |_| {
            let dialing = dial::counted(address, connections.clone());
            async { dialing.await.map(TokioIo::new).map_err(Dialed) }
        });
        self.endpoint.connect_with_connector(dial).await.map_err(|e| explain(&e).unwrap_or_else(|| Failure::of(&e)))
    }
}

/// Why dialing failed, as it comes back in tonic's errors.
#[derive(Debug)]
struct Dialed(Failure);

impl std::fmt::Display for Dialed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.example)
    }
}

impl Error for Dialed {}

/// The failure of a dialing that an error tells of.
fn explain(error: &(dyn Error + 'static)) -> Option<Failure> {
    match error.downcast_ref::<Dialed>() {
        Some(Dialed(failure)) => Some(failure.clone()),
        None => explain(error.source()?),
    }
}

fn failed(status: Status) -> Failure {
    if let Some(failure) = explain(&status) {
        return failure;
    }
    let code = code_name(status.code() as i32);
    match status.source() {
        // How tonic calls a broken connection, which Go calls Unavailable.
        Some(cause) if matches!(status.code(), Code::Unknown | Code::Cancelled) => Failure::of(cause),
        Some(cause) => Failure { code, ..Failure::of(cause) },
        None => Failure::application(status.code() as i32, status.message()),
    }
}

struct Echo(Dialing);

impl Connector for Echo {
    type Link = EchoServiceClient<Channel>;

    async fn open(&self) -> Result<Self::Link, Failure> {
        let client = EchoServiceClient::new(self.0.channel().await?);
        Ok(client.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE))
    }

    async fn call(&self, link: &mut Self::Link, message: &Message) -> Result<Message, Failure> {
        let data = message.data.clone();
        let request = Payload { id: message.number, data, timestamp: timestamp(), answer_bytes: None };
        let answer = link.echo(request).await.map_err(failed)?.into_inner();
        Ok(Message { number: answer.id, data: answer.data })
    }

    fn lasts(_: &Self::Link) -> bool {
        true
    }
}

struct Pings(Dialing);

impl Connector for Pings {
    type Link = PingServiceClient<Channel>;

    async fn open(&self) -> Result<Self::Link, Failure> {
        Ok(PingServiceClient::new(self.0.channel().await?))
    }

    async fn call(&self, link: &mut Self::Link, _: &Message) -> Result<Message, Failure> {
        link.ping(Ping {}).await.map_err(failed)?;
        Ok(Message::default())
    }

    fn lasts(_: &Self::Link) -> bool {
        true
    }
}

struct Chat(Dialing);

impl Connector for Chat {
    type Link = ChatServiceClient<Channel>;

    async fn open(&self) -> Result<Self::Link, Failure> {
        let client = ChatServiceClient::new(self.0.channel().await?);
        Ok(client.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE))
    }

    async fn call(&self, link: &mut Self::Link, message: &Message) -> Result<Message, Failure> {
        Talk::begin(link.clone(), message).await?.answer().await
    }

    fn lasts(_: &Self::Link) -> bool {
        true
    }
}

/// A caller's stream, which is kept as long as it lasts. In a mode of a connection for each
/// call that is a connection for the stream.
struct Chatting {
    shared: Shared<Chat>,
    talk: Option<Talk>,
}

struct Talk {
    say: mpsc::Sender<ChatMessage>,
    answers: Streaming<ChatMessage>,
}

impl tasks::Wire for Chatting {
    async fn call(&mut self, message: &Message) -> Result<Message, Failure> {
        let answer = self.talk(message).await;
        if answer.is_err() {
            self.talk = None;
        }
        answer
    }
}

impl Chatting {
    async fn talk(&mut self, message: &Message) -> Result<Message, Failure> {
        if let Some(talk) = &mut self.talk {
            talk.say(message).await?;
            return talk.answer().await;
        }
        let link = self.shared.link().await?;
        self.talk.insert(Talk::begin(link, message).await?).answer().await
    }
}

impl Talk {
    /// Opens a stream with its first message: a server may send nothing before it has that.
    async fn begin(mut client: ChatServiceClient<Channel>, first: &Message) -> Result<Talk, Failure> {
        let (say, said) = mpsc::channel(1);
        say.send(as_said(first)).await.expect("what receives it is here");
        let answers = client.chat(ReceiverStream::new(said)).await.map_err(failed)?.into_inner();
        Ok(Talk { say, answers })
    }

    async fn say(&mut self, message: &Message) -> Result<(), Failure> {
        let said = self.say.send(as_said(message)).await;
        said.map_err(|_| Failure::closed("the stream has ended"))
    }

    async fn answer(&mut self) -> Result<Message, Failure> {
        match self.answers.message().await.map_err(failed)? {
            Some(answer) => Ok(Message { number: answer.number, data: answer.data }),
            None => Err(Failure::closed("the server ended the stream")),
        }
    }
}

fn as_said(message: &Message) -> ChatMessage {
    ChatMessage { number: message.number, data: message.data.clone(), answer_bytes: None }
}

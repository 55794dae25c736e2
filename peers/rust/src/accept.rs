//! Clients that come over TCP to a server on tokio.

use std::{io, net::TcpListener, time::Duration};

use socket2::SockRef;
use tokio::{net::TcpStream, sync::mpsc};

/// How long a client may take over what it has begun: a preface, a header, a body.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// HTTP/2: how often a client is asked whether it is there, and how soon it must say so. One
/// that does not read cannot.
pub const PING: Duration = Duration::from_secs(10);
pub const PONG: Duration = Duration::from_secs(10);

/// The length of an HTTP/2 client's preface (RFC 9113, section 3.4).
const PREFACE: usize = 24;

/// Hands over each client that comes.
pub async fn clients(listener: TcpListener, mut each: impl FnMut(TcpStream)) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without these a call is only slower, and a client that does not read stays.
                let _ = stream.set_nodelay(true);
                let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(PATIENCE));
                each(stream);
            }
            // Descriptors have run out, or the client has gone: others go on.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Clients that have sent a preface: hyper would wait for ever for one.
pub fn clients_of_http2(listener: TcpListener) -> io::Result<mpsc::Receiver<TcpStream>> {
    let (hand_over, clients_with_preface) = mpsc::channel(128);
    tokio::spawn(clients(listener, move |stream| {
        let hand_over = hand_over.clone();
        tokio::spawn(async move {
            if let Ok(true) = tokio::time::timeout(PATIENCE, has_preface(&stream)).await {
                let _ = hand_over.send(stream).await; // the server has ended
            }
        });
    }));
    Ok(clients_with_preface)
}

/// Waits for as many bytes as a preface has. Whether they are one is hyper's to say.
async fn has_preface(stream: &TcpStream) -> bool {
    let mut seen = [0; PREFACE];
    loop {
        match stream.peek(&mut seen).await {
            Ok(PREFACE) => return true,
            Ok(0) | Err(_) => return false,
            // It is in pieces, which no library's is.
            Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

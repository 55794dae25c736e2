//! A worker of wirelab in Rust: the server of the workload echo over bare TCP, HTTP/1.1,
//! HTTP/2 and gRPC, written from docs/worker-contract.md, docs/wire-tcp.md and
//! docs/wire-http.md.

mod contract;
mod echo;
mod grpc;
mod http;
mod tcp;

use std::{
    io::{self, BufRead},
    net::{SocketAddr, TcpListener},
    process::exit,
    thread,
};

use contract::Spec;

fn main() {
    if let Err(message) = run() {
        contract::fail(&message);
        exit(1);
    }
}

fn run() -> Result<(), String> {
    let mut line = String::new();
    let mut input = io::stdin().lock();
    input.read_line(&mut line).map_err(|e| format!("read the spec from standard input: {e}"))?;
    drop(input);
    let spec = Spec::parse(&line)?;
    let serve = match spec.variant()?.as_str() {
        "tcp" => tcp::serve,
        "h1" => http::serve_h1,
        "h2" => http::serve_h2,
        "grpc" => grpc::serve,
        other => return Err(format!("stack {other:?}: this peer serves tcp, h1, h2 and grpc")),
    };
    let (listener, address) = listen(&spec.address)?;
    thread::spawn(move || {
        if let Err(e) = serve(listener) {
            contract::fail(&format!("the server stopped by itself: {e}"));
            exit(1);
        }
    });
    contract::ready(&address);
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink()); // its end tells us to stop
    contract::served();
    exit(0); // whatever its threads do
}

fn listen(address: &str) -> Result<(TcpListener, SocketAddr), String> {
    let listening = TcpListener::bind(address)
        .and_then(|l| l.set_nonblocking(true).map(|()| l))
        .and_then(|l| l.local_addr().map(|a| (l, a)));
    listening.map_err(|e| format!("listen on {address}: {e}"))
}

/// How many threads serve: as many as there are CPUs that they may run on.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}

//! A worker of wirelab in Rust: servers and clients over bare TCP, HTTP/1.1, HTTP/2, HTTP/3 and
//! gRPC, written from docs/worker-contract.md, docs/wire-tcp.md and docs/wire-http.md.

mod accept;
mod catalog;
mod contract;
mod dial;
mod events;
mod grpc;
mod http;
mod links;
mod load;
mod messages;
mod ntex;
mod settings;
mod stream;
mod tcp;

use std::{
    io::{self, BufRead},
    net::{SocketAddr, TcpListener},
    process::exit,
    sync::Arc,
    thread,
};

use contract::{Order, Spec, Variant};

fn main() {
    if let Err(message) = run() {
        stop(&message);
    }
}

/// Ends the worker with an error.
fn stop(message: &str) -> ! {
    events::fail(message);
    exit(1);
}

fn run() -> Result<(), String> {
    let mut line = String::new();
    let mut input = io::stdin().lock();
    input.read_line(&mut line).map_err(|e| format!("read the spec from standard input: {e}"))?;
    drop(input);
    let spec = Spec::parse(&line)?;
    match spec.role.as_str() {
        "capabilities" => events::capabilities(),
        "server" => serve(&spec, spec.variant()?)?,
        _ => {
            let variant = spec.variant()?;
            let plan = Arc::new(load::Plan::of(spec, variant.carrier())?);
            let given = plan.clone();
            let watch = thread::spawn(move || {
                obey(&given);
                // Half a window is not a measurement.
                exit(if events::has_measured() { 0 } else { 1 });
            });
            measure(&variant, plan)?;
            let _ = watch.join(); // meanwhile what it cost is read from outside
        }
    }
    exit(0) // whatever its threads do
}

/// Waits for the end of standard input, which tells the worker to stop.
fn wait_for_end() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}

/// Obeys the lines of standard input until its end.
fn obey(plan: &Arc<load::Plan>) {
    for order in io::stdin().lock().lines().map_while(Result::ok).filter_map(|line| Order::parse(&line)) {
        if let Err(message) = load::turns::take(plan, order) {
            stop(&message);
        }
    }
}

type Serve = Box<dyn FnOnce() -> io::Result<()> + Send>;

fn serve(spec: &Spec, variant: Variant) -> Result<(), String> {
    let mut root = None;
    let (serve, address): (Serve, SocketAddr) = match variant.carrier() {
        "h3" => {
            let identity = http::Identity::new()?;
            root = Some(identity.root_pem.clone());
            let (socket, address) = bind(&spec.address)?;
            (Box::new(move || http::serve_h3(socket, identity)), address)
        }
        name => {
            let server = if name == "tcp" { Some(tcp::server(&variant)?) } else { None };
            let workload = spec.workload.name.clone();
            let (listener, address) = listen(&spec.address)?;
            let serve: Serve = match (name, server) {
                ("tcp", Some(server)) => Box::new(|| server(listener)),
                ("h1", _) => Box::new(|| http::serve_h1(listener)),
                ("h2", _) => Box::new(|| http::serve_h2(listener)),
                (catalog::NTEX, _) => Box::new(|| ntex::serve(listener)),
                _ => Box::new(move || grpc::serve(listener, &workload)),
            };
            (serve, address)
        }
    };
    thread::spawn(move || {
        if let Err(e) = serve() {
            stop(&format!("the server stopped by itself: {e}"));
        }
    });
    events::ready(&address.to_string(), root.as_deref(), settings::of(variant.carrier(), "server"));
    wait_for_end();
    events::served();
    Ok(())
}

fn measure(variant: &Variant, plan: Arc<load::Plan>) -> Result<(), String> {
    match variant.carrier() {
        "tcp" => tcp::measure(variant, plan),
        "h1" => http::measure_h1(plan),
        "h2" => http::measure_h2(plan),
        "h3" => http::measure_h3(plan),
        catalog::NTEX => ntex::measure(plan),
        _ => grpc::measure(plan),
    }
}

fn listen(address: &str) -> Result<(TcpListener, SocketAddr), String> {
    let listening = TcpListener::bind(address)
        .and_then(|l| l.set_nonblocking(true).map(|()| l))
        .and_then(|l| l.local_addr().map(|a| (l, a)));
    listening.map_err(|e| format!("listen on {address}: {e}"))
}

fn bind(address: &str) -> Result<(std::net::UdpSocket, SocketAddr), String> {
    let bound = std::net::UdpSocket::bind(address).and_then(|s| s.local_addr().map(|a| (s, a)));
    bound.map_err(|e| format!("listen on {address}: {e}"))
}

/// How many threads serve or call: as many as there are CPUs that they may run on.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads()).enable_all().build().map_err(|e| format!("start tokio: {e}"))
}

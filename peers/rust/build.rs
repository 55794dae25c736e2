//! Generates the gRPC services, and notes what the program is built of, since a figure
//! belongs to versions.

use std::{env, fs, process::Command};

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

/// The crates whose versions the worker tells.
const CRATES: [&str; 12] =
    ["tonic", "ntex-grpc", "ntex-h2", "hyper", "h2", "quinn", "h3", "rustls", "ring", "tokio", "prost", "io-uring"];

fn main() {
    generate();
    let rustc = env::var("RUSTC").expect("cargo sets RUSTC");
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&version.stdout);
    println!("cargo:rustc-env=PEER_RUSTC={}", version.split(' ').nth(1).unwrap_or("unknown"));
    let lock = fs::read_to_string("Cargo.lock").expect("Cargo.lock is there");
    let crates = CRATES.map(|name| {
        let head = format!("name = \"{name}\"\nversion = \"");
        let version = lock.split(&head).nth(1).and_then(|rest| rest.split('"').next());
        format!("{name} {}", version.unwrap_or("unknown"))
    });
    println!("cargo:rustc-env=PEER_CRATES={}", crates.join(", "));
    println!("cargo:rerun-if-changed=Cargo.lock");
    println!("cargo:rerun-if-changed=build.rs");
}

fn generate() {
    let service = |name: &str, package: &str, method: Method| {
        Service::builder().name(name).package(package).method(method).build()
    };
    let messages = |method: MethodBuilder, input: &str, output: &str| {
        let module = "crate::messages";
        method
            .input_type(format!("{module}::{input}"))
            .output_type(format!("{module}::{output}"))
            .codec_path("tonic_prost::ProstCodec")
    };
    let unary = |name: &str, route: &str| Method::builder().name(name).route_name(route);
    let echo = messages(unary("echo", "Echo"), "Payload", "Payload").build();
    let ping = messages(unary("ping", "Ping"), "Ping", "Ping").build();
    let chat =
        messages(unary("chat", "Chat"), "ChatMessage", "ChatMessage").client_streaming().server_streaming().build();
    let services: [Service; 3] = [
        service("EchoService", "wirelab.echo.v1", echo),
        service("PingService", "wirelab.ping.v1", ping),
        service("ChatService", "wirelab.chat.v1", chat),
    ];
    Builder::new().compile(&services);
}

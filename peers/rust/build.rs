//! Generates the gRPC service, and notes what the program is built of, since a figure
//! belongs to versions.

use std::{env, fs, process::Command};

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let echo = Method::builder()
        .name("echo")
        .route_name("Echo")
        .input_type("crate::echo::Payload")
        .output_type("crate::echo::Payload")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service = Service::builder().name("EchoService").package("wirelab.echo.v1").method(echo).build();
    Builder::new().build_client(false).compile(&[service]);

    let rustc = env::var("RUSTC").expect("cargo sets RUSTC");
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&version.stdout);
    println!("cargo:rustc-env=PEER_RUSTC={}", version.split(' ').nth(1).unwrap_or("unknown"));
    let lock = fs::read_to_string("Cargo.lock").expect("Cargo.lock is there");
    for (crate_name, variable) in [("tonic", "PEER_TONIC"), ("hyper", "PEER_HYPER"), ("prost", "PEER_PROST")] {
        let head = format!("name = \"{crate_name}\"\nversion = \"");
        let version = lock.split(&head).nth(1).and_then(|rest| rest.split('"').next());
        println!("cargo:rustc-env={variable}={}", version.unwrap_or("unknown"));
    }
    println!("cargo:rerun-if-changed=Cargo.lock");
    println!("cargo:rerun-if-changed=build.rs");
}

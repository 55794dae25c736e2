// Package peers holds the sources of wirelab's workers in other languages. What builds them
// is package peer.
package peers

import "embed"

// Sources has one folder per peer, and Shared, which all are built with.
//
//go:embed proto
//go:embed rust/Cargo.toml rust/Cargo.lock rust/build.rs rust/src
//go:embed cpp/CMakeLists.txt cpp/src
//go:embed c/echo.c
//go:embed java/pom.xml java/build.sh java/src
//go:embed python/build.sh python/start.py python/c_core.py python/requirements.txt python/requirements-build.txt
var Sources embed.FS

// Shared is the folder of what every peer is built with: the messages of the workloads. In a
// copy of a peer's sources it lies under the same name.
const Shared = "proto"

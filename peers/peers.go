// Package peers holds the sources of wirelab's workers in other languages. What builds them
// is package peer.
package peers

import "embed"

// Sources has a folder a peer.
//
//go:embed rust/Cargo.toml rust/Cargo.lock rust/build.rs rust/src
//go:embed cpp/CMakeLists.txt cpp/src
var Sources embed.FS

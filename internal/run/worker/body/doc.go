// Package body holds what wirelab's own workers do: it reads a spec of package worker, runs the
// server or client that the spec describes, and prints its events.
//
//	spec ── Main ──> server: serve until the input ends ──────────> result
//	            └──> client: connect ── load ── count the bytes ──> result
//
// This package must not know the plan that a trial is part of, nor judge what it measured.
package body

import "wirelab.dev/internal/run/worker"

// A task is the spec that a worker carries out.
type task struct{ worker.Spec }

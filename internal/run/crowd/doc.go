// Package crowd makes one client of several that work at the same time, on machines of their own.
//
//	one spec ── Split ──> a spec per client
//	progress and intervals, while they run ── Tracker, Stream ──> one progress
//	results ── Merge ──> one result
//
// It adds up what package worker defines; the types have their Plus there. It must not know how
// the clients are reached.
package crowd

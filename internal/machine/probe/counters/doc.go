// Package counters counts events of a server and its client while they run: events of the
// processor, if the machine has counters, and kernel events that no other probe counts.
// Switches, faults and CPU time are not among them: every trial has those without a probe.
//
// An event that cannot be counted is left out, with the reason: a zero is a count.
package counters

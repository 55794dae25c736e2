// Package counters counts events of a server and its client while they run: those of the
// processor, where the machine has them, and those of the kernel that nothing else tells.
// Switches, faults and CPU time are not among them, since every trial has those for nothing.
//
// An event that cannot be counted is left out, with the reason: a zero is a count.
package counters

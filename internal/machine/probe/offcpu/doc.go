// Package offcpu takes the call stacks of a server and its client that are off the CPU,
// and for how long: programs in the kernel look on as threads are switched.
//
// A thread that is off its CPU sleeps, waits for something, or was put aside for others. It
// is the kernel's threads that are seen: a goroutine that waits for another is not among
// them, since its thread goes on with a third, or sleeps for want of one.
package offcpu

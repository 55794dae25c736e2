// Package cpusamples takes the call stacks of a server and its client that are on a CPU,
// in user space and in the kernel in one stack, at a steady rate. It has two ways:
//
//  1. of the CPUs, whatever runs on them, with the kernel's functions: as root, or with
//     CAP_PERFMON;
//  2. of the processes' threads, in user space only, which an ordinary user may do.
package cpusamples

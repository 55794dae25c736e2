// Package bpf runs small programs in the kernel that watch a server and its client:
// written here in assembler, so that neither a compiler nor kernel headers are needed.
//
// A [Program] begins with [Ends.Filter], which lets only the two watched processes
// through, and runs on a raw tracepoint. What it finds goes into memory that it shares
// with wirelab ([Shared]) or into a ring of events ([Events]).
//
// It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with CONFIG_BPF_EVENTS. An error for
// a refused program wraps [host.ErrUnsupported] and says what is needed.
package bpf

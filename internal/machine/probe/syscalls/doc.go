// Package syscalls counts the system calls of a server and its client by name, and how
// long each kind takes, waiting included. It has three ways, the best first:
//
//  1. [Census]: programs in the kernel count every call. Exact; a call costs 0.1 to 0.3 µs
//     more.
//  2. [Tracepoints]: perf events count the calls that matter most to a wire. Exact; no
//     times.
//  3. [Procfs]: reads and writes of files only, as /proc/PID/io has them.
package syscalls

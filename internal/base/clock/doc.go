// Package clock reads instants and waits for them, with an error well below a
// microsecond if the machine allows it.
//
// An instant is an int64: nanoseconds of CLOCK_MONOTONIC, the clock that every
// process of one machine shares, so that the instant at which a server stamped
// an event can be compared with one that a client stamped. A load generator
// computes the instant of its next request, calls [Until], and takes the
// instant as the beginning of the response time.
//
// The package knows nothing of schedules, requests or rates.
package clock

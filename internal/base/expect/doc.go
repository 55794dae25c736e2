// Package expect judges answers of services by conditions that users write, such as
//
//	status == 200 and json(.items[0].price) > 3 and latency < 20ms
//
//	text ── Parse ──> Condition ──┐
//	                              ├─> Check: nil, or an Unmet that says what was found
//	answer ── Look.At ────────────┘
//
// A condition is an expression of github.com/expr-lang/expr with two forms more, which are
// rewritten before it is compiled: durations as Go writes them, and the path of json without
// quotes. It is compiled once and may be shared; a [Look] belongs to one goroutine. A [Value]
// is an expression that takes something out of an answer.
//
// This package must not know who asked, nor over which wire.
package expect

import (
	"net/http"
	"time"
)

// A Kind is the protocol of an answer.
type Kind int

// The kinds of answers.
const (
	HTTP Kind = iota
	GRPC
)

// An Answer holds the parts of an answer that conditions look at.
type Answer struct {
	Status    int // of HTTP, or a code of gRPC
	SizeBytes int64
	Latency   time.Duration
	// Header and Body are needed if an expression [Uses] them.
	Header http.Header
	Body   []byte
}

// Uses lists the parts of an answer that an expression looks at.
type Uses struct{ Status, Latency, Header, Body bool }

// Plus returns the parts that either of two looks at.
func (u Uses) Plus(other Uses) Uses {
	return Uses{
		Status: u.Status || other.Status, Latency: u.Latency || other.Latency,
		Header: u.Header || other.Header, Body: u.Body || other.Body,
	}
}

// Package service calls a service of the user's own. It holds the requests, the wires that
// carry them, and the conditions of a right answer.
//
//		target, method, data ─> Definition ── JSON ──> worker: Open ─> Client
//		(the command line)                                 │             ▲ Call(Request) → Answer
//		                                                   └─> Caller ───┘
//
//	 1. The command line becomes a [Definition], which has all that a worker needs: no file
//	    is read and no name is looked up in a trial.
//	 2. A worker makes a [Client] of it, which opens the connections, and one [Caller]
//	    per client of the load.
//	 3. A Caller takes the next request, has the Client carry it, and, when the clock has
//	    stopped, checks the answer.
//
// Glossary:
//
//	wire      the protocol that carries a call: HTTP/1.1, 2 or 3, gRPC, gRPC over HTTP/3
//	prepared  a request that was encoded before the window; its answer is read as far as
//	          status and length
//	kept      an answer whose header and body are kept for a look at them
//
// A folder is an engine, which carries calls, or a maker of requests. This package must not
// know when calls are sent, nor that they are measured.
package service

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/secure"
)

// A Wire is the protocol that carries a call.
type Wire string

// The wires.
const (
	HTTP1  Wire = "h1"
	HTTP2  Wire = "h2"
	HTTP3  Wire = "h3"
	GRPC   Wire = "grpc"
	GRPCH3 Wire = "grpc-h3"
)

// IsGRPC reports whether calls have messages and a gRPC status.
func (w Wire) IsGRPC() bool { return w == GRPC || w == GRPCH3 }

// Stack is the name of a service's variants before their wire, as in service:wire=h2.
const Stack = record.ServiceStack

// A Definition says what a worker's clients call.
type Definition struct {
	Wire    Wire   `json:"wire"`
	Network string `json:"network"` // tcp or unix
	Address string `json:"address"` // IP:PORT, or the socket's path
	// Authority is the Host field of HTTP/1.1, and :authority of HTTP/2 and HTTP/3.
	Authority string `json:"authority"`
	TLS       *TLS   `json:"tls,omitempty"` // nil: cleartext

	Requests []Request     `json:"requests"`
	Journey  *Journey      `json:"journey,omitempty"` // replaces Requests; the first one has the header
	Feed     *Feed         `json:"feed,omitempty"`    // replaces Requests if the plan says Varied
	Random   bool          `json:"random,omitempty"`  // the order of requests; otherwise in turn
	Timeout  time.Duration `json:"timeout,omitempty"`
	// Expect lists the conditions of a right answer; empty: the usual one of the wire.
	Expect []string `json:"expect,omitempty"`
	// Descriptors is the result of schema.Method.Files, if answers of gRPC are checked.
	Descriptors []byte `json:"descriptors,omitempty"`
	// ExpectSample is the share of answers whose bodies are checked; 0: all.
	ExpectSample float64 `json:"expect_sample,omitempty"`
	// Trace says which requests a tracing system follows; nil: none.
	Trace *Trace `json:"trace,omitempty"`
}

// TLS says how a client and the target agree on keys.
type TLS struct {
	ServerName string       `json:"server_name"`
	Trust      secure.Trust `json:"trust"`
	// Certificate and Key are the client's own, as PEM; empty: it has none.
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"`
}

// A Request is one request, as far as it is known before the window.
type Request struct {
	Name   string  `json:"name,omitempty"` // in reports, if there are several requests
	Method string  `json:"method"`         // HTTP only
	Path   string  `json:"path"`           // with its query; of gRPC /pkg.Service/Method
	Header []Field `json:"header,omitempty"`
	Body   []byte  `json:"body,omitempty"` // HTTP only

	// Messages holds the messages of a gRPC call, encoded, without the prefixes.
	Messages [][]byte `json:"messages,omitempty"`
	Stream   Stream   `json:"stream,omitzero"`
	// Pace is the time between the sends of two messages; 0: none.
	Pace time.Duration `json:"pace,omitempty"`
}

// A Stream is the kind of a gRPC call; the zero value is unary.
type Stream = schema.Stream

// A Field is a field of a header, or of metadata.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Label names what is called, for reports.
func (d *Definition) Label() string {
	if d.Journey != nil {
		return d.Journey.Name
	}
	first := d.Requests[0]
	if d.Wire.IsGRPC() {
		return strings.TrimPrefix(first.Path, "/")
	}
	return first.Method + " " + first.Path
}

// Parse reads a definition.
func Parse(text string) (*Definition, error) {
	var d Definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("the definition of the service: %w", err)
	}
	return &d, nil
}

// Encode writes what Parse reads.
func (d *Definition) Encode() (string, error) {
	text, err := json.Marshal(d)
	return string(text), err
}

// TLSConfig returns a client's configuration for the target, or nil without TLS. Unlike the
// laboratory's own stacks it also accepts TLS 1.2, since nobody can change the target for a test.
func (d *Definition) TLSConfig() (*tls.Config, error) {
	if d.TLS == nil {
		return nil, nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: d.TLS.ServerName, NextProtos: d.Wire.Version().Protocols(),
	}
	if !d.TLS.Trust.Apply(config) {
		return nil, errors.New("the root to trust holds no certificate in PEM form")
	}
	if len(d.TLS.Certificate) > 0 {
		own, err := tls.X509KeyPair(d.TLS.Certificate, d.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Version returns the version of HTTP that carries the wire.
func (w Wire) Version() httpwire.Version {
	switch w {
	case HTTP1:
		return httpwire.HTTP1
	case HTTP3, GRPCH3:
		return httpwire.HTTP3
	default:
		return httpwire.HTTP2
	}
}

// A Client carries calls.
type Client interface {
	// Call sends a request, one of the definition's unless the plan says Varied, and writes its
	// answer into answer, whose memory it may use again. An error says that there is no answer,
	// whatever its status. The plan's Callers may call concurrently.
	Call(ctx context.Context, request *Request, answer *Answer) error
	// Close ends the running calls and closes every connection.
	io.Closer
}

// An Answer is the answer to a call.
type Answer struct {
	// Status is the status of HTTP, or the code of gRPC.
	Status int
	// Message is the text of a gRPC status beside its code.
	Message  string
	Bytes    int64 // length of the body; gRPC: of all messages, without prefixes
	Messages int   // gRPC only
	// Times holds the latency of each message of a stream: from the send of the message that it
	// answers if both ends send many, otherwise from the one before it, or the call's begin.
	Times []time.Duration

	// Set if the plan says Keep:
	Header http.Header // with the trailers of gRPC
	Body   []byte      // gRPC: the last message; valid until the next call

	// CallerState holds an engine's state of the caller between its calls.
	CallerState any
}

// Seen returns the answer in the form that conditions read.
func (a *Answer) Seen(took time.Duration) expect.Answer {
	return expect.Answer{Status: a.Status, SizeBytes: a.Bytes, Latency: took, Header: a.Header, Body: a.Body}
}

// Plan says how a client carries the calls of a definition.
type Plan struct {
	*Definition
	Connections int            // connections that the client opens and keeps
	Lifecycle   conn.Lifecycle // unless it is Kept, each call opens one, and Connections is ignored
	Callers     int            // bounds the concurrent calls
	Keep        bool           // answers' headers and bodies are kept
	Varied      bool           // requests are made while calls are sent
	Dialer      *conn.Dialer   // opens and counts connections
}

// A Feed holds the templates of requests that are made while calls are sent.
type Feed struct {
	// Requests have templates: the path, the values of the header, and the body, which is
	// JSON for a call of gRPC.
	Requests []Request `json:"requests"`
	Rows     Rows      `json:"rows,omitzero"`
	Random   bool      `json:"random,omitempty"` // the order of requests and rows; otherwise in turn
	// Descriptors is the result of schema.Method.Files; empty: requests of HTTP.
	Descriptors []byte `json:"descriptors,omitempty"`
}

// Rows holds data for templates.
type Rows struct {
	Columns []string   `json:"columns"`
	Values  [][]string `json:"values"` // row by row
}

// A Journey is a file that says, step by step, what users do at a service.
type Journey struct {
	Name string `json:"name"` // the file's name, for errors
	File []byte `json:"file"`
	// Drawn says that a client becomes another kind of user in each round. With arrivals, a kind
	// with slow answers would otherwise call less often than its weight.
	Drawn bool `json:"drawn,omitempty"`
}

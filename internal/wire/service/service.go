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
//	 3. A Caller takes the next request and sends it through the Client. It checks the answer
//	    outside the measured time.
//
// Glossary:
//
//	wire      the protocol that carries a call: HTTP/1.1, 2 or 3, gRPC, gRPC over HTTP/3
//	prepared  a request that was encoded before the window; only its answer's status and
//	          length are read
//	kept      an answer whose header and body are stored, for conditions and later requests
//
// The subfolders hold engines, which carry calls, and sources of requests. This package must not
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
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/base/secret"
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
	// WebSocket goes over HTTP/1.1 (RFC 6455).
	WebSocket Wire = "ws"
)

// IsGRPC reports whether the wire carries gRPC calls, which have messages and a gRPC status.
func (w Wire) IsGRPC() bool { return w == GRPC || w == GRPCH3 }

// StackName begins the names of a service's variants, as in service:wire=h2.
const StackName = record.ServiceStack

// A Definition describes the requests of a worker's clients, and the server that they call.
type Definition struct {
	Wire    Wire   `json:"wire"`
	Network string `json:"network"` // tcp or unix
	Address string `json:"address"` // IP:PORT, or the socket's path
	// Addresses says how calls are divided among several addresses. Nil means that all go to Address.
	Addresses *Addresses `json:"addresses,omitempty"`
	// Authority becomes the Host field in HTTP/1.1, and :authority in HTTP/2 and HTTP/3.
	Authority string `json:"authority"`
	TLS       *TLS   `json:"tls,omitempty"` // nil means cleartext

	Requests []Request     `json:"requests"`
	Journey  *Journey      `json:"journey,omitempty"` // replaces Requests, except the first request's header
	Feed     *Feed         `json:"feed,omitempty"`    // replaces Requests if the plan says Varied
	Random   bool          `json:"random,omitempty"`  // send requests in random order
	Timeout  time.Duration `json:"timeout,omitempty"`
	// Retry limits how often a call without an answer is sent again. 0 means never.
	Retry int `json:"retry,omitempty"`
	// Compress says that gRPC messages are sent with gzip, and that the server may do so, too.
	Compress bool `json:"compress,omitempty"`
	// Expect lists the conditions of a right answer. Empty means the wire's usual condition.
	Expect []string `json:"expect,omitempty"`
	// Descriptors is a result of schema.Method.Files. It is set if gRPC answers are checked.
	Descriptors []byte `json:"descriptors,omitempty"`
	// ExpectSample is the share of answers whose bodies are checked. 0 means all answers.
	ExpectSample float64 `json:"expect_sample,omitempty"`
	// Holding says that clients hold streams, and how. Nil means that a call is a whole exchange.
	Holding *Holding `json:"holding,omitempty"`
	// Trace says which requests a tracing system should follow. Nil means none.
	Trace *Trace `json:"trace,omitempty"`
}

// TLS holds a client's TLS options for the target.
type TLS struct {
	ServerName string       `json:"server_name"`
	Trust      secure.Trust `json:"trust"`
	// Certificate and Key belong to the client, in PEM form. Empty means that the client has none.
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"`
}

// A Request is one request. If it has templates, they are filled in later.
type Request struct {
	Name   string  `json:"name,omitempty"` // shown in reports if there are several requests
	Method string  `json:"method"`         // HTTP only
	Path   string  `json:"path"`           // includes the query; for gRPC: /pkg.Service/Method
	Header []Field `json:"header,omitempty"`
	Body   []byte  `json:"body,omitempty"` // HTTP only

	// Messages holds the encoded messages of a gRPC call, without prefixes.
	Messages [][]byte `json:"messages,omitempty"`
	Stream   Stream   `json:"stream,omitzero"`
	// Pace is the time between sending two messages. 0 means no wait.
	Pace time.Duration `json:"pace,omitempty"`
	// Timeout replaces the definition's timeout. 0 means that the definition's applies.
	Timeout time.Duration `json:"timeout,omitempty"`
	// GRPC says that the request is a call of gRPC, although the definition's wire may be HTTP's.
	GRPC bool `json:"grpc,omitempty"`
}

// A Stream says which ends of a gRPC call send a stream. The zero value is unary.
type Stream = schema.Stream

// A Field is one field of an HTTP header or of gRPC metadata.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HasField reports whether the request's header has a field.
func (r *Request) HasField(name string) bool {
	return slices.ContainsFunc(r.Header, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// Label returns the name of the called service for reports, without secrets in the query.
func (d *Definition) Label() string {
	if d.Journey != nil {
		return d.Journey.Name
	}
	first := d.Requests[0]
	if d.Wire.IsGRPC() {
		return strings.TrimPrefix(first.Path, "/")
	}
	label := first.Method + " " + secret.HideData(first.Path)
	if others := len(d.Requests) - 1; others > 0 {
		label += fmt.Sprintf(" and %d more", others)
	}
	return label
}

// Parse decodes a definition from JSON.
func Parse(text string) (*Definition, error) {
	var d Definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("decode the definition of the service: %w", err)
	}
	return &d, nil
}

// Encode encodes a definition as JSON, for Parse.
func (d *Definition) Encode() (string, error) {
	text, err := json.Marshal(d)
	return string(text), err
}

// TLSConfig returns the client's TLS configuration for the target, or nil without TLS. It accepts
// TLS 1.2 too, because a tester often cannot change the target.
func (d *Definition) TLSConfig() (*tls.Config, error) {
	if d.TLS == nil {
		return nil, nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: d.TLS.ServerName, NextProtos: d.Wire.Version().Protocols(),
	}
	if !d.TLS.Trust.Apply(config) {
		return nil, errors.New("the file of trusted roots holds no PEM certificate: name a PEM file")
	}
	if len(d.TLS.Certificate) > 0 {
		own, err := tls.X509KeyPair(d.TLS.Certificate, d.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate and key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Version returns the HTTP version that carries the wire.
func (w Wire) Version() httpwire.Version {
	switch w {
	case HTTP1, WebSocket:
		return httpwire.HTTP1
	case HTTP3, GRPCH3:
		return httpwire.HTTP3
	default:
		return httpwire.HTTP2
	}
}

// A Client sends requests and receives their answers.
type Client interface {
	// Call sends a request and stores its answer in answer, whose memory it may reuse. The request
	// must be one of the definition's, unless the plan says Varied. An error means that there is no
	// answer. An answer with any status is no error. Several callers may call at the same time.
	Call(ctx context.Context, request *Request, answer *Answer) error
	// Close ends the running calls and closes every connection.
	io.Closer
}

// Counted is a Client that calls several addresses or services.
type Counted interface {
	// Connections returns how many connections it opened at first.
	Connections() int
	// Addresses describes all addresses that were used so far. It is nil if each service has only one.
	Addresses() *record.Addresses
}

// An Answer holds the answer to a call.
type Answer struct {
	// Status is the HTTP status, or the gRPC code.
	Status int
	// Message is the text of a gRPC status.
	Message  string
	Bytes    int64 // length of the body; gRPC: total length of messages without prefixes
	Messages int   // number of messages; gRPC only
	// Times holds the latency of each message of a stream. If both ends send many messages, a
	// latency begins when the request message is sent. Otherwise it begins at the previous message
	// or at the start of the call. On a held stream, a call has at most one time: since the message
	// was sent, or since the stream's previous message.
	Times []time.Duration

	// Bytes of the request and of the answer besides their bodies, above TLS. Both are 0 if the engine
	// does not know them.
	SentHeaderBytes, ReceivedHeaderBytes int64

	// These fields are set if the plan says Keep.
	Header http.Header // for gRPC it includes the trailers
	Body   []byte      // gRPC: the last message; valid until the next call

	// Address is the address that was called, if there are several.
	Address string

	// CallerState holds the engine's state for one caller between calls.
	CallerState any
}

// ForConditions converts the answer into the form that conditions use.
func (a *Answer) ForConditions(kind expect.Kind, took time.Duration) expect.Answer {
	return expect.Answer{Kind: kind, Status: a.Status, SizeBytes: a.Bytes, Latency: took, Header: a.Header, Body: a.Body}
}

// Plan says how a client carries a definition's calls.
type Plan struct {
	*Definition
	Connections int            // number of connections that the client opens and keeps
	Spare       int            // further connections of HTTP/1.1, which are opened only when a call needs one
	Lifecycle   conn.Lifecycle // unless it is Kept, each call opens its own connection, and Connections is ignored
	Callers     int            // largest number of calls at the same time
	Keep        bool           // keep the headers and bodies of answers
	Probe       bool           // leave the body unread if it is a stream of events, which may not end
	Varied      bool           // requests are made while calls run, not before
	Dialer      *conn.Dialer   // opens and counts connections
}

// A Feed holds templates of requests. The requests are made while calls are sent.
type Feed struct {
	// Requests may have templates in the path, in header values and in the body. For gRPC the body
	// is JSON.
	Requests []Request `json:"requests"`
	Rows     Rows      `json:"rows,omitzero"`
	Random   bool      `json:"random,omitempty"` // use requests and rows in random order
	// Descriptors is a result of schema.Method.Files. Empty means that the requests use HTTP.
	Descriptors []byte `json:"descriptors,omitempty"`
}

// Rows holds a table of data for templates.
type Rows struct {
	Columns []string   `json:"columns"`
	Values  [][]string `json:"values"` // one list of values per row
}

// A Journey is a file that describes the steps of a service's users.
type Journey struct {
	Name string `json:"name"` // the file's name, used in errors
	File []byte `json:"file"`
	// Drawn says that a client chooses its kind of user again in each round. With arrivals this is
	// necessary: otherwise a kind of user with slow answers would call too rarely.
	Drawn bool `json:"drawn,omitempty"`
	// Methods has a result of schema.Method.Files for each gRPC method of the steps.
	Methods map[string][]byte `json:"methods,omitempty"`
	// GRPC says where the gRPC steps go, if the definition's wire is HTTP's. It has no requests.
	GRPC *Definition `json:"grpc,omitempty"`
}

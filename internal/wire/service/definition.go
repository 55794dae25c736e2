package service

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/http"
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
	// Authority is the Host of HTTP, the :authority of HTTP/2.
	Authority string `json:"authority"`
	TLS       *TLS   `json:"tls,omitempty"` // nil: cleartext

	Requests []Request     `json:"requests"`
	Journey  *Journey      `json:"journey,omitempty"` // in the place of Requests, whose first one has the header
	Feed     *Feed         `json:"feed,omitempty"`    // in the place of Requests, where the plan says Varied
	Random   bool          `json:"random,omitempty"`  // the order of requests; otherwise in turn
	Timeout  time.Duration `json:"timeout,omitempty"`
	// Expect lists the conditions of a right answer; empty: the usual one of the wire.
	Expect []string `json:"expect,omitempty"`
	// Descriptors describes the messages of gRPC, as schema.Method.Files returns it, if answers
	// are checked.
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
	Name   string  `json:"name,omitempty"` // in reports, where there are several
	Method string  `json:"method"`         // of HTTP
	Path   string  `json:"path"`           // with its query; of gRPC /pkg.Service/Method
	Header []Field `json:"header,omitempty"`
	Body   []byte  `json:"body,omitempty"` // of HTTP

	// Messages holds the messages of a gRPC call, encoded, without the prefixes.
	Messages [][]byte `json:"messages,omitempty"`
	Stream   Stream   `json:"stream,omitzero"`
	// Pace is the time between the sends of two messages; 0: none.
	Pace time.Duration `json:"pace,omitempty"`
}

// A Stream is the kind of a gRPC call; the zero value is unary.
type Stream struct {
	Client bool `json:"client,omitempty"` // sends any number of messages
	Server bool `json:"server,omitempty"` // answers with any number of messages
}

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
// laboratory's own stacks it takes TLS 1.2, too: the target is as it is.
func (d *Definition) TLSConfig() (*tls.Config, error) {
	if d.TLS == nil {
		return nil, nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: d.TLS.ServerName, NextProtos: d.Wire.Version().Protocols(),
		InsecureSkipVerify: d.TLS.Trust.SkipVerify, //nolint:gosec // the user says so
	}
	if len(d.TLS.Trust.RootPEM) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(d.TLS.Trust.RootPEM) {
			return nil, errors.New("the root to trust holds no certificate in PEM form")
		}
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

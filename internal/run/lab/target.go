package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// A TargetFault says why a variant cannot call the server at its target, and what was found
// there.
type TargetFault struct {
	Variant scenario.Variant
	Address string
	Err     error         // of the call, or of connecting for it
	Class   failure.Class // of Err
	Found   Listening
}

// Listening names the protocol of a listener over TCP, as far as it shows.
type Listening struct {
	Err      error  // that kept from connecting; nil: something listens
	TLS      bool   // it speaks TLS
	Protocol string // HTTP/1.1 or HTTP/2; empty: neither, or over TLS neither was agreed on
	HTTP2    bool   // it speaks HTTP/2 beside HTTP/1.1, without TLS
}

const (
	// answerSoon is the wait for a target's answer before looking what listens there.
	answerSoon = 1500 * time.Millisecond
	// answerLate is the wait if the listener may speak the wanted protocol.
	answerLate = 5 * time.Second
	// lookAt limits how long each question takes that is asked of what is there.
	lookAt = time.Second
	// triesOfTarget is the number of calls to a target that fails at once: one that fails
	// now and then can be measured.
	triesOfTarget = 3
)

// TryTargets calls each server that is a target of the plan once, and returns the first
// fault in the plan's order, or nil. It ends when ctx ends.
func (l *Lab) TryTargets(ctx context.Context, plan []scenario.Planned) *TargetFault {
	var targets []*trial
	seen := map[string]bool{}
	for _, planned := range plan {
		t := &trial{lab: l, planned: planned}
		if name := planned.Cell.Variant.String(); t.target() != "" && !seen[name] {
			seen[name] = true
			targets = append(targets, t)
		}
	}
	faults := make([]*TargetFault, len(targets))
	var trying sync.WaitGroup
	for i, t := range targets {
		trying.Go(func() { faults[i] = t.tryTarget(ctx) })
	}
	trying.Wait()
	return cmp.Or(faults...)
}

// tryTarget calls the trial's target. Where it does not answer soon, and may yet be right,
// it is given longer.
func (t *trial) tryTarget(ctx context.Context) *TargetFault {
	work, _ := workloads.Work(t.planned.Cell.Workload)
	err := t.callTarget(ctx, answerSoon+work)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	fault := &TargetFault{Variant: t.planned.Cell.Variant, Address: t.target(), Found: LookAt(ctx, t.target())}
	if isLate(err) && fault.mayBeRight() {
		if err = t.callTarget(ctx, answerLate+work); err == nil || ctx.Err() != nil {
			return nil
		}
	}
	fault.Err, fault.Class = err, failure.Of(err)
	return fault
}

// callTarget makes one call, and another if that fails before its time is over.
func (t *trial) callTarget(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	spec := t.spec(worker.ClientRole, t.target())
	spec.Probe = ""
	spec.Client = &worker.ClientSpec{
		Clients: 1, Connection: t.connection().String(), Seed: t.lab.seed(1),
		RootPEM: string(t.lab.Trust.RootPEM), SkipVerify: t.lab.Trust.SkipVerify,
	}
	var err error
	for range triesOfTarget {
		if err = body.Try(ctx, &spec); err == nil || ctx.Err() != nil || failure.Of(err) == failure.Refused {
			return err
		}
	}
	return err
}

// isLate reports whether a call failed only because there was no answer yet.
func isLate(err error) bool {
	class := failure.Of(err)
	return class == failure.Deadline || class == failure.HandshakeTimeout
}

// mayBeRight reports whether what was found may be what the variant calls.
func (f *TargetFault) mayBeRight() bool {
	wants := f.Wants()
	speaks := f.Found.Protocol == "" || f.Found.Protocol == wants || f.Found.HTTP2 && wants == http2Name
	return f.Found.Err == nil && f.Found.TLS == f.WantsTLS() && speaks
}

// Wants is the protocol that the variant speaks, or TCP if it has one of its own.
func (f *TargetFault) Wants() string {
	s, err := catalog.Find(f.Variant.Stack)
	if err != nil {
		return ""
	}
	return stack.ProtocolFor(s, catalog.OwnOptions(f.Variant))
}

// WantsTLS reports whether the variant goes over TLS.
func (f *TargetFault) WantsTLS() bool {
	s, err := catalog.Find(f.Variant.Stack)
	return err == nil && stack.IsSecure(s, f.Variant)
}

// LookAt asks what listens at an address: whether it answers to TLS, and to HTTP.
func LookAt(ctx context.Context, address string) Listening {
	conn, err := dialToLook(ctx, address)
	if err != nil {
		return Listening{Err: err}
	}
	found, is := overTLS(ctx, conn)
	if is && found.TLS {
		return found
	}
	if conn, err = dialToLook(ctx, address); err != nil {
		return Listening{Protocol: found.Protocol} // it listened, and has enough of it
	}
	protocol := inCleartext(conn)
	if !is {
		return Listening{Protocol: protocol}
	}
	found.HTTP2 = protocol == http2Name
	return found
}

// http2Name is how Listening names HTTP/2.
const http2Name = "HTTP/2"

func dialToLook(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: lookAt}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(lookAt))
}

// overTLS says what a connection's peer is if it answers to the beginning of TLS: with TLS,
// or as servers of HTTP/1.1 answer to what they do not understand. It closes the connection.
func overTLS(ctx context.Context, conn net.Conn) (found Listening, is bool) {
	defer conn.Close()
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	config := &tls.Config{
		ServerName: host, NextProtos: []string{"h2", "http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // nothing is told to it and nothing believed of it
	}
	client := tls.Client(conn, config)
	err := client.HandshakeContext(ctx)
	if err == nil {
		agreed := map[string]string{"h2": http2Name, "http/1.1": "HTTP/1.1"}
		return Listening{TLS: true, Protocol: agreed[client.ConnectionState().NegotiatedProtocol]}, true
	}
	if wrong, is := errors.AsType[tls.RecordHeaderError](err); is {
		protocol := http1(wrong.RecordHeader[:])
		return Listening{Protocol: protocol}, protocol != ""
	}
	return Listening{TLS: true}, strings.HasPrefix(string(failure.Of(err)), string(failure.TLSAlert))
}

// HTTP/2 begins with these bytes of the client, and SETTINGS from both ends (RFC 9113,
// sections 3.4 and 6.5).
const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	settingsType  = 4
	headerBytes   = 9
)

// inCleartext says what protocol a connection's peer answers in to the beginning of HTTP/2,
// which a server of HTTP/1.1 refuses in its own. It closes the connection.
func inCleartext(conn net.Conn) string {
	defer conn.Close()
	if _, err := io.WriteString(conn, preface+emptySettings); err != nil {
		return ""
	}
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(conn, header); err != nil {
		return ""
	}
	length, kind, streamID := uint32(header[0])<<16|uint32(header[1])<<8|uint32(header[2]), header[3], binary.BigEndian.Uint32(header[5:])
	if kind == settingsType && length%6 == 0 && streamID == 0 {
		return http2Name
	}
	return http1(header)
}

// http1 is HTTP/1.1 if an answer begins with its name, or with a page, as HTTP had before it
// had status lines: some servers answer so to a version that they do not know.
func http1(beginning []byte) string {
	if text := string(beginning); strings.HasPrefix(text, "HTTP/") || strings.HasPrefix(text, "<!DOC") || strings.HasPrefix(text, "<html") {
		return "HTTP/1.1"
	}
	return ""
}

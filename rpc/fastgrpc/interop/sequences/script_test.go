package sequences

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A script says what both ends of one call do, in order.
type script struct {
	seed, number uint64
	client       kind
	server       kind
	invoke       bool // the client calls Invoke, not NewStream
	deadline     bool // the call has a deadline
	request      metadata.MD
	steps        []step
}

// A kind is a kind of method. Its value is the method's name.
type kind string

const (
	unary        kind = "Unary"
	clientStream kind = "ClientStream"
	serverStream kind = "ServerStream"
	bidi         kind = "Bidi"
)

var kinds = []kind{unary, clientStream, serverStream, bidi}

func (k kind) desc() *grpc.StreamDesc {
	return &grpc.StreamDesc{
		StreamName:    string(k),
		ClientStreams: k == clientStream || k == bidi,
		ServerStreams: k == serverStream || k == bidi,
	}
}

// A side is who takes a step: an end of the call, or the caller, who can act while the client waits.
type side string

const (
	client side = "client"
	server side = "server"
	caller side = "caller"
)

type operation string

const (
	open       operation = "NewStream"
	invoke     operation = "Invoke"
	send       operation = "SendMsg"
	receive    operation = "RecvMsg"
	closeSend  operation = "CloseSend"
	header     operation = "Header"
	trailer    operation = "Trailer"
	inspect    operation = "Context"
	setHeader  operation = "SetHeader"
	sendHeader operation = "SendHeader"
	setTrailer operation = "SetTrailer"
	finish     operation = "return"
	cancel     operation = "cancel"
	expire     operation = "deadline"           // at the client, whose reset reaches the server before the server's deadline
	expireCut  operation = "deadline while cut" // at both ends: the server does not hear of the client's before
	hangUp     operation = "hang up"            // cancel, unless the handler has returned and the client does not wait
	drain      operation = "RecvMsg to the end"
)

// A step is one action of one side. Its number names it in the transcripts, and gives a message its
// content.
type step struct {
	number int
	who    side
	do     operation
	size   int         // of the message: send, invoke, and finish of a unary handler
	md     metadata.MD // setHeader, sendHeader, setTrailer
	ending int         // finish: an index of endings
}

func (s step) String() string {
	text := fmt.Sprintf("%2d %s %s", s.number, s.who, s.do)
	switch s.do {
	case send, invoke:
		text += fmt.Sprintf(" %d bytes", s.size)
	case setHeader, sendHeader, setTrailer:
		text += " " + describeMetadata(s.md)
	case finish:
		text += fmt.Sprintf(" %s, %d bytes if unary", endings[s.ending].name, s.size)
	}
	return text
}

func (s *script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-seed=%d -number=%d: a %s client calls a %s method, deadline %t, metadata %s\n",
		s.seed, s.number, s.client, s.server, s.deadline, describeMetadata(s.request))
	for _, step := range s.steps {
		fmt.Fprintf(&b, "  %v\n", step)
	}
	return b.String()
}

// patience is the time up to the deadline. The part below a microsecond makes the server's deadline
// later than the client's, because grpc-timeout is rounded up.
const patience = time.Second + 500*time.Nanosecond

// mark is in each error text that a handler makes. Only such texts are compared.
const mark = "handler"

// endings are the errors that handlers return. last is the last error that the handler got.
var endings = []struct {
	name string
	err  func(last error) error
}{
	{"nil", func(error) error { return nil }},
	{"a status", func(error) error { return status.Error(codes.NotFound, "handler: 100% größer\n") }},
	{"a status with details", func(error) error {
		st, err := status.New(codes.FailedPrecondition, "handler: not now").WithDetails(
			&errdetails.ErrorInfo{Reason: "TEST", Domain: "example.com", Metadata: map[string]string{"a": "b"}})
		if err != nil {
			return err
		}
		return st.Err()
	}},
	{"a wrapped status", func(error) error { return fmt.Errorf("handler: %w", status.Error(codes.Aborted, "handler: again")) }},
	{"a status of an unknown code", func(error) error { return status.Error(77, "handler: code 77") }},
	{"a plain error", func(error) error { return errors.New("handler: plain") }},
	{"context.Canceled", func(error) error { return context.Canceled }},
	{"a wrapped context.DeadlineExceeded", func(error) error { return fmt.Errorf("handler: %w", context.DeadlineExceeded) }},
	{"io.EOF", func(error) error { return io.EOF }},
	{"the last error", func(last error) error { return last }},
}

// draw returns the script of a seed and a number.
func draw(seed, number uint64) *script {
	r := rand.New(rand.NewPCG(seed, number))
	s := &script{seed: seed, number: number, client: kinds[r.IntN(len(kinds))]}
	s.server = s.client
	if s.invoke = s.client == unary && r.IntN(2) == 0; !s.invoke && r.IntN(5) == 0 {
		// A proxy opens a stream for any method.
		s.server = kinds[r.IntN(len(kinds))]
	}
	s.deadline = r.IntN(3) == 0
	s.request = drawMetadata(r, false)
	programs := [][]step{drawClient(r, s), drawServer(r, s.server), drawCaller(r, s.deadline)}
	left := len(programs[0]) + len(programs[1]) + len(programs[2])
	for ; left > 0; left-- {
		n := r.IntN(left)
		for i, p := range programs {
			if n < len(p) {
				s.add(p[0])
				programs[i] = p[1:]
				break
			}
			n -= len(p)
		}
	}
	s.add(step{who: caller, do: hangUp})
	if !s.invoke {
		for _, do := range afterwards {
			s.add(step{who: client, do: do})
		}
	}
	return s
}

func (s *script) add(next step) {
	next.number = len(s.steps) + 1
	s.steps = append(s.steps, next)
}

// afterwards lists the client's steps when the call has ended.
var afterwards = []operation{header, drain, receive, trailer, inspect, send, header}

func drawClient(r *rand.Rand, s *script) []step {
	if s.invoke {
		return []step{{who: client, do: invoke, size: drawSize(r)}}
	}
	program := []step{{who: client, do: open}}
	drawn := []operation{send, send, send, send, receive, receive, receive, closeSend, header, trailer, inspect}
	for range r.IntN(8) {
		program = append(program, step{who: client, do: drawn[r.IntN(len(drawn))], size: drawSize(r)})
	}
	if !s.client.desc().ClientStreams && r.IntN(10) > 0 { // as generated code does
		program[0] = step{who: client, do: send, size: drawSize(r)}
		program = append([]step{{who: client, do: open}}, program...)
	}
	if r.IntN(3) > 0 {
		program = append(program, step{who: client, do: closeSend})
	}
	return program
}

func drawServer(r *rand.Rand, k kind) []step {
	drawn := []operation{send, send, send, receive, receive, receive, setHeader, sendHeader, setTrailer, inspect}
	if k == unary {
		drawn = []operation{setHeader, sendHeader, setTrailer, inspect}
	}
	var program []step
	for range r.IntN(8) {
		next := step{who: server, do: drawn[r.IntN(len(drawn))], size: drawSize(r)}
		if next.do == setHeader || next.do == sendHeader || next.do == setTrailer {
			next.md = drawMetadata(r, true)
		}
		program = append(program, next)
	}
	ending := 0
	if r.IntN(2) == 0 {
		ending = r.IntN(len(endings))
	}
	return append(program, step{who: server, do: finish, ending: ending, size: drawSize(r)})
}

func drawCaller(r *rand.Rand, deadline bool) []step {
	var program []step
	if r.IntN(5) == 0 {
		program = append(program, step{who: caller, do: cancel})
	}
	if deadline && r.IntN(3) > 0 {
		program = append(program, step{who: caller, do: []operation{expire, expireCut}[r.IntN(2)]})
	}
	return program
}

// drawSize draws short messages often, and up to 300 KB.
func drawSize(r *rand.Rand) int {
	switch r.IntN(6) {
	case 0:
		return 0
	case 1:
		return r.IntN(20_000)
	case 2:
		return r.IntN(300_001)
	}
	return 1 + r.IntN(200)
}

// invalidKey is the key of values that headers cannot hold.
const invalidKey = "x-invalid"

func drawMetadata(r *rand.Rand, mayBeInvalid bool) metadata.MD {
	md := metadata.MD{}
	for range r.IntN(4) {
		switch r.IntN(4) {
		case 0:
			md.Append("x-a", fmt.Sprint(r.IntN(10)))
		case 1:
			md.Append("x-b", "", " with  spaces ")
		case 2:
			md.Append("x-c-bin", string([]byte{0, 255, byte(r.IntN(256)), ','}))
		case 3:
			md.Append("x-long", strings.Repeat("x", r.IntN(2000)))
		}
	}
	if mayBeInvalid && r.IntN(8) == 0 {
		md.Append(invalidKey, "not\nprintable")
	}
	return md
}

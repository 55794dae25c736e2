// Package filestack is the stack `file`: what a server stream answers, as a file that
// an HTTP/2 file server hands out. It is the yardstick for how cheaply bytes can be
// sent, and carries nothing but server streams.
//
// A call passes through like this. The client GETs /SERVICE/METHOD/x and its request,
// encoded, in hexadecimal. The first time nobody has that file: it is made (folder.go)
// by letting the registered handler answer once, its messages framed as gRPC frames
// them. From then on the file server sends it, and no handler runs. The client takes
// the messages out of the answer's body.
//
// The file server is Go's own, in the worker's process, or Caddy as a process of its
// own (caddy.go), in a pinned version.
//
// The package must not know what the messages mean or that it is measured.
package filestack

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// Stack is a file server. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack            = Stack{}
	_ stack.KindLimiter      = Stack{}
	_ stack.SettingsReporter = Stack{}
)

const (
	name      = "file"
	serverKey = "server"
)

var plan = stack.HTTPPlan{Name: name, Version: httpwire.HTTP2}

// goServer is the file server that is none of another program; that one's name is its
// option's value.
const goServer = "go"

// Info describes the stack. HTTP/2 was made for one connection for all.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: name, Summary: "a server stream's answer as a file over cleartext HTTP/2: the yardstick for sending bytes",
		Options: []scenario.Option{
			{Key: serverKey, Values: []string{goServer, Caddy.Name}, Default: goServer, Help: "go: net/http; caddy: " + Caddy.Package + " " + Caddy.Version + ", which `run --yardstick caddy` fetches and builds"},
		},
		Connection: scenario.Connection{Mode: scenario.Shared}, Protocol: "HTTP/2",
	}
}

// Program is the program of somebody else that a variant needs; there is none where
// wirelab is enough.
func Program(v scenario.Variant) (program string, foreign bool) {
	server, _ := v.Get(serverKey)
	return server, v.Stack == name && server == Caddy.Name
}

// NewServer makes a file server without files.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	if err := stack.ReadOptions(s, v).Err(); err != nil {
		return nil, err
	}
	if _, foreign := Program(v); foreign {
		return &caddy{}, nil
	}
	return newServer(), nil
}

// NewClient opens its connections.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	if err := stack.ReadOptions(s, v).Err(); err != nil {
		return nil, err
	}
	wire, err := plan.NewClient(ctx, target)
	if err != nil {
		return nil, err
	}
	return &client{wire}, nil
}

// Settings implements stack.SettingsReporter.
func (Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	all := append(stack.MessageLimit(stack.MaxMessageBytes), tuning.Setting{
		Side: tuning.Client, Name: "bufio.NewReaderSize", Value: strconv.Itoa(readAhead), Default: "4096", Why: "several of HTTP/2's frames a read",
	})
	wire := plan.Settings(t)
	if _, foreign := Program(v); foreign {
		return append(slices.Clone(caddySettings), tuning.At(tuning.Client, append(all, wire...))...), nil
	}
	return append(all, wire...), nil
}

// errOnlySends is what both ends say about calls that are not server streams.
var errOnlySends = fmt.Errorf("file: a file server only sends, so it carries server streams alone; every other stack has the other kinds: %w", stack.ErrUnsupported)

// CheckKind refuses all but server streams.
func (Stack) CheckKind(_ scenario.Variant, kind stack.Kind) error {
	if kind == stack.ServerStream {
		return nil
	}
	return errOnlySends
}

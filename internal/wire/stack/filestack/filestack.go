// Package filestack is the stack `file`: the answer to a server stream as a file that an
// HTTP/2 file server sends. It shows how cheaply bytes can be sent, and carries only
// server streams.
//
// A call passes through these stages:
//
//  1. The client GETs /SERVICE/METHOD/x followed by its encoded request in hexadecimal.
//  2. If the file does not exist, it is made (folder.go): the registered handler answers
//     once, and its messages are stored in gRPC's framing.
//  3. The file server sends the file. From the second call on no handler runs.
//  4. The client reads the messages from the answer's body.
//
// The file server is Go's own, in the worker's process, or Caddy as a process of its
// own (caddy.go), in a pinned version.
//
// The package must not know what the messages mean or that it is measured.
package filestack

import (
	"net/http"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/stack"
)

type adapter struct{ stack.HTTPStack }

// Stack is a file server.
var Stack = adapter{stack.NewHTTPStack(stack.HTTPAdapter{
	Info: stack.Info{
		Name: name, Summary: "a server stream's answer as a file over cleartext HTTP/2: the yardstick for sending bytes",
		Options: []scenario.Option{
			{Key: serverKey, Values: []string{goServer, Caddy.Name}, Default: goServer, Help: "go: net/http; caddy: " + Caddy.Package + " " + Caddy.Version + ", which `run --yardstick caddy` fetches and builds"},
		},
	},
	Plan: func(*scenario.Options) stack.HTTPPlan {
		return stack.HTTPPlan{
			Version: httpwire.HTTP2,
			Handler: func(methods *stack.Methods) (http.Handler, error) { return newFolder(methods) },
			Client:  func(wire *stack.HTTPClient) stack.Client { return &client{wire} },
			Settings: append(stack.MessageLimit(stack.MaxMessageBytes), tuning.Setting{
				Side: tuning.Client, Name: "bufio.NewReaderSize", Value: strconv.Itoa(readAhead), Default: "4096", Why: "one read takes several HTTP/2 frames",
			}),
		}
	},
	CheckKind: func(kind stack.Kind) error {
		if kind == stack.ServerStream {
			return nil
		}
		return errOnlyServerStreams
	},
})}

// NewServer implements stack.Stack.
func (a adapter) NewServer(v scenario.Variant) (stack.Server, error) {
	server, err := a.HTTPStack.NewServer(v)
	if _, foreign := Program(v); foreign && err == nil {
		return &caddy{}, nil
	}
	return server, err
}

// Settings implements stack.SettingsReporter.
func (a adapter) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	all, err := a.HTTPStack.Settings(v, t)
	if _, foreign := Program(v); foreign {
		all = slices.Concat(caddySettings, tuning.At(tuning.Client, all))
	}
	return all, err
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/reach"
)

// methodFlags say where a method of gRPC is described.
type methodFlags struct {
	reach.Method
	call      string
	plaintext bool
}

func (m *methodFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.Proto, "proto", "", "gRPC: the .proto `file` that has the service (default: the server is asked, by reflection)")
	f.StringArrayVar(&m.Imports, "import-path", nil, "gRPC: `directory` that --proto and its imports are found in (default: the file's own)")
	f.StringVar(&m.Protoset, "protoset", "", "gRPC: a `file` of descriptors, as protoc --descriptor_set_out or buf build -o writes")
	f.StringVar(&m.call, "call", "", "gRPC: the `method`, as in pkg.Service/Method, where the target does not name it")
	f.BoolVar(&m.plaintext, "plaintext", false, "gRPC: a target without a scheme is called without TLS")
	f.DurationVar(&m.Pace, "pace", 0, "gRPC: `time` between two messages that a call sends")
	f.IntVar(&m.Messages, "messages", 1, "gRPC: how many times a call that streams sends its `messages`")
}

// isGRPC reports whether the flags are about gRPC.
func (m *methodFlags) isGRPC() bool {
	return m.call != "" || m.Proto != "" || m.Protoset != "" || m.plaintext
}

// usualScheme is that of a target that has none.
func (m *methodFlags) usualScheme() string {
	switch {
	case m.isGRPC() && m.plaintext:
		return "grpc"
	case m.isGRPC():
		return "grpcs"
	default:
		return "http"
	}
}

// apply puts the method into the target.
func (m *methodFlags) apply(t *service.Target) error {
	switch {
	case !t.Wire.IsGRPC() && m.isGRPC():
		return errors.New("--call, --proto, --protoset and --plaintext are about gRPC: write grpc:// or grpcs://")
	case !t.Wire.IsGRPC():
		return nil
	case m.Pace < 0:
		return fmt.Errorf("--pace: found %v: want more than 0s", m.Pace)
	case m.Messages < 1:
		return fmt.Errorf("--messages: found %d: want 1 or more", m.Messages)
	case t.Path == "" && m.call == "":
		return fmt.Errorf("target %s: it names no method: write it behind the port, as in %s/pkg.Service/Method, or with --call", t, t)
	case t.Path == "":
		t.Path = "/" + strings.TrimPrefix(m.call, "/")
	case m.call != "":
		return fmt.Errorf("--call %s: the target names the method %s already: give one of the two", m.call, t.Path)
	}
	return nil
}

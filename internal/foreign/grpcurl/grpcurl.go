// Package grpcurl reads commands of fullstorydev/grpcurl.
package grpcurl

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/foreign/flags"
)

// Tool holds the flags of fullstorydev/grpcurl 1.9, as in its cmd/grpcurl.
var Tool = &flags.Tool{
	Name:    "grpcurl",
	OneDash: true,
	Options: slices.Concat([]flags.Option{
		flags.Flag("--plaintext", flags.None, flags.Kept("--plaintext", "the scheme "+flags.Code("grpc://")+"; "+flags.Code("grpcs://")+" without")),
		flags.Flag("--insecure", flags.None, flags.On("-k")),
		flags.Flag("--proto", flags.File, flags.To("--proto")),
		flags.Flag("--import-path", flags.File, flags.To("--import-path")),
		flags.Flag("--protoset", flags.File, flags.To("--protoset")),
		flags.Flag("-H", flags.Header, flags.To("-H")),
		flags.Flag("--rpc-header", flags.Header, flags.To("-H")),
		flags.Flag("--reflect-header", flags.Header, flags.Refused("reflection has no metadata: give --proto FILE or --protoset FILE instead")),
		flags.Flag("--expand-headers", flags.None, flags.Refused("variables are not replaced: write their values")),
		flags.Flag("--authority --servername", flags.Text, flags.To("--host")),
		flags.Flag("--user-agent", flags.Text, flags.AsHeader("User-Agent: ")),
		flags.Flag("-d", flags.Text, flags.Function(flags.Code("-d"), flags.StandardInput)),
		flags.Flag("--format", flags.Text, flags.OneOf("json only", map[string]flags.Rule{"json": flags.Nothing}, flags.Refused("only JSON data is supported"))),
		flags.Flag("--allow-unknown-fields", flags.None, flags.Refused("unknown fields are refused: remove them")),
		flags.Flag("--max-time", flags.Seconds, flags.InSeconds("--timeout")),
		flags.Flag("--connect-timeout", flags.Seconds, flags.Ignored(flags.ConnectTimeoutNote)),
		flags.Flag("--keepalive-time", flags.Seconds, flags.Ignored("under load a connection is never idle")),
		flags.Flag("--max-msg-sz", flags.Number, flags.Ignored("wirelab has its own limit of message sizes")),
		flags.Flag("--format-error --emit-defaults --msg-template -v --vv", flags.None, flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("--unix", flags.None, flags.Kept("--unix", "the target "+flags.Code("unix:PATH"))),
	}, flags.Certificates),
	Fits: func(c *flags.Command) bool {
		if len(c.Operands) != 2 || strings.Contains(c.Operands[0], "://") {
			return false
		}
		called := c.Operands[1]
		return called == "list" || strings.ContainsAny(called, "./") && !strings.Contains(called, "://")
	},
	Settle: settle,
}

func settle(c *flags.Command) error {
	for i, verb := range c.Operands {
		if i < 2 && (verb == "list" || verb == "describe") {
			return fmt.Errorf("grpcurl %s makes no call: give a command that calls a method, as in grpcurl HOST:PORT pkg.Service/Method", verb)
		}
	}
	switch len(c.Operands) {
	case 2:
	case 0, 1:
		if !c.Pasted {
			return nil
		}
		return fmt.Errorf("the grpcurl command lacks the address or the method: want HOST:PORT pkg.Service/Method after the flags")
	default:
		return fmt.Errorf("the grpcurl command has %d words after its flags (%s …): want HOST:PORT pkg.Service/Method", len(c.Operands), flags.Excerpt(c.Operands[0]))
	}
	address, called := c.Operands[0], flags.Slashed(c.Operands[1])
	c.Set("--call", called)
	c.Operands = []string{address}
	if socket, is := strings.CutPrefix(address, "unix:"); is || len(c.Kept("--unix")) > 0 {
		c.Operands[0] = "unix:" + strings.TrimPrefix(socket, "//")
		return nil
	}
	c.Cleartext()
	if len(c.Kept("--plaintext")) == 0 {
		c.Operands[0] = "grpcs" + strings.TrimPrefix(c.Operands[0], "grpc")
	}
	if !c.Pasted {
		c.Note("read as a grpcurl command: the target is %s", c.Operands[0])
	}
	return nil
}

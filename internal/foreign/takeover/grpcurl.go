package takeover

import (
	"fmt"
	"strings"
)

// grpcurl is fullstorydev/grpcurl 1.9, with the flags of its cmd/grpcurl.
var grpcurl = &tool{
	name: "grpcurl", purpose: "one gRPC call",
	oneDash: true,
	options: []option{
		{"--plaintext", none, later("--plaintext", "the scheme "+code("grpc://")+"; "+code("grpcs://")+" without")},
		{"--insecure", none, on("-k")},
		{"--cacert", file, to("--cacert")},
		{"--cert", file, to("--cert")},
		{"--key", file, to("--key")},
		{"--alts", none, no("keys are agreed on by TLS only")},
		{"--alts-handshaker-service --alts-target-service-account", text, no("keys are agreed on by TLS only")},
		{"--proto", file, to("--proto")},
		{"--import-path", file, to("--import-path")},
		{"--protoset", file, to("--protoset")},
		{"--use-reflection", maybe, without("reflection is asked where neither --proto nor --protoset is given")},
		{"-H", header, to("-H")},
		{"--rpc-header", header, to("-H")},
		{"--reflect-header", header, no("give what it is asked for without reflection: --proto FILE or --protoset FILE")},
		{"--expand-headers", none, no("variables are not looked up: write their values")},
		{"--authority --servername", text, to("--host")},
		{"--user-agent", text, asHeader("User-Agent")},
		{"-d", text, by(code("-d"), standardInput)},
		{"--format", text, by("json only", func(c *command, value string) error {
			if value != "json" {
				return c.refusal("data is JSON: write it so")
			}
			return nil
		})},
		{"--allow-unknown-fields", none, no("fields that the message does not have are refused: take them out")},
		{"--max-time", seconds, inSeconds("--timeout")},
		{"--connect-timeout", seconds, without(noConnecting)},
		{"--keepalive-time", seconds, without("under load a connection is never idle")},
		{"--max-msg-sz", number, without("messages of any size that wirelab takes are received")},
		{"--format-error --emit-defaults --msg-template -v --vv", none, without(noShow)},
		{"--protoset-out --proto-out-dir", file, without("nothing is written beside the run")},
		{"--unix", none, later("--unix", "the target "+code("unix:PATH"))},
	},
	fits: func(c *command) bool {
		if len(c.operands) != 2 || strings.Contains(c.operands[0], "://") {
			return false
		}
		called := c.operands[1]
		return called == "list" || strings.ContainsAny(called, "./") && !strings.Contains(called, "://")
	},
	settle: settleGrpcurl,
}

func settleGrpcurl(c *command) error {
	for i, verb := range c.operands {
		if i < 2 && (verb == "list" || verb == "describe") {
			return fmt.Errorf("grpcurl %s calls nothing: give a command that calls a method, as in grpcurl HOST:PORT pkg.Service/Method", verb)
		}
	}
	switch len(c.operands) {
	case 2:
	case 0, 1:
		if !c.pasted {
			return nil
		}
		return fmt.Errorf("the grpcurl command lacks the address or the method: want HOST:PORT pkg.Service/Method behind the flags")
	default:
		return fmt.Errorf("the grpcurl command has %d words behind its flags (%s …): want HOST:PORT pkg.Service/Method", len(c.operands), excerpt(c.operands[0]))
	}
	address, called := c.operands[0], slashed(c.operands[1])
	c.set("--call", called)
	c.operands = []string{address}
	if socket, is := strings.CutPrefix(address, "unix:"); is || len(c.kept["--unix"]) > 0 {
		c.operands[0] = "unix:" + strings.TrimPrefix(socket, "//")
		return nil
	}
	c.cleartext()
	if len(c.kept["--plaintext"]) == 0 {
		c.operands[0] = "grpcs" + strings.TrimPrefix(c.operands[0], "grpc")
	}
	if !c.pasted {
		c.tell("read as grpcurl has it: the target is %s", c.operands[0])
	}
	return nil
}

// Package h2load reads commands of nghttp2's h2load, and runs h2load as a measurement's client.
package h2load

import (
	"fmt"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/rpc/call/wire"
)

// Tool holds the flags of nghttp2's h2load 1.70, as in its manual page.
var Tool = &flags.Tool{
	Name:    "h2load",
	Letters: true, Yield: "-d",
	Options: []flags.Option{
		flags.Flag("-n --requests", flags.Number, flags.To("-n")),
		flags.Flag("-c --clients", flags.Number, flags.To("-c")),
		flags.Flag("-t --threads", flags.Number, flags.Ignored(flags.ThreadsNote)),
		flags.Flag("-i --input-file", flags.File, flags.To("--targets")),
		flags.Flag("-m --max-concurrent-streams", flags.Number, flags.Kept("-m", "multiplies "+flags.Code("-c")+"; the connections become "+flags.Code("--conn pool:N"))),
		flags.Flag("-w -W --window-bits --connection-window-bits", flags.Number, flags.Ignored("wirelab's client has its own windows")),
		flags.Flag("-H --header", flags.Header, flags.HeaderLine),
		flags.Flag("--ciphers --tls13-ciphers --groups", flags.Text, flags.Refused("ciphers and groups cannot be chosen: leave the flag out")),
		flags.Flag("-p --no-tls-proto", flags.Text, flags.Function(flags.Code("--http"), func(c *flags.Command, value string) error { return alpn(c, value) })),
		flags.Flag("-d --data", flags.NoneOf("a file", flags.IsDuration), flags.Function(flags.Code("-D"), func(c *flags.Command, value string) error {
			c.Keep("body", value)
			c.Set("-D", value)
			return nil
		})),
		flags.Flag("-r --rate", flags.Number, flags.Refused("the flag is a rate of connections: for a rate of calls write --rps N, with --conn new for one connection per call")),
		flags.Flag("--rate-period", flags.Clock, flags.Refused("the flag is a rate of connections: write --rps N")),
		flags.Flag("-D --duration", flags.Clock, flags.InSeconds("-z")),
		flags.Flag("--warm-up-time", flags.Clock, flags.InSeconds("--warm-up")),
		flags.Flag("-T --connection-active-timeout", flags.Clock, flags.Refused("connections stay open: for one connection per call write --conn new")),
		flags.Flag("-N --connection-inactivity-timeout", flags.Clock, flags.InSeconds("--timeout")),
		flags.Flag("-B --base-uri", flags.Text, flags.Function(flags.Code("--unix-socket")+" for unix:PATH; otherwise refused: write the whole URL as the target", func(c *flags.Command, value string) error {
			if socket, is := strings.CutPrefix(value, "unix:"); is {
				c.Set("--unix-socket", socket)
				return nil
			}
			return c.Refuse("write the whole URL as the target")
		})),
		flags.Flag("--alpn-list --npn-list", flags.Text, flags.Function(flags.Code("--http")+", the first", func(c *flags.Command, value string) error { return alpn(c, value) })),
		flags.Flag("--h1", flags.None, flags.On("--http", "1.1")),
		flags.Flag("--h3", flags.None, flags.On("--http", "3")),
		flags.Flag("--connect-to", flags.Text, flags.Changed("--connect-to", func(to string) string { return "::" + to })),
		flags.Flag("--rps", flags.Rate, flags.Kept("--rps", flags.Code("--rps")+", multiplied by the clients: h2load has a rate per client")),
		flags.Flag("--sni", flags.Text, flags.To("--sni")),
		flags.Flag("-v --verbose", flags.None, flags.Ignored(flags.OutputOnlyNote)),
	},
	Fits: flags.CallsHTTP,
	Usual: func(c *flags.Command) {
		c.SetDefault("-c", "1")
		if !c.Has("-z") {
			c.SetDefault("-n", "1")
		}
		c.SetDefault("--http", "2")
		c.OwnConnections()
	},
	Settle: func(c *flags.Command) error {
		c.DropCountIfTimed()
		c.PerClient("--rps", c.Last("--rps"))
		if streams := c.Last("-m"); streams != "" {
			if c.Get("--http") == "1.1" {
				c.Note("-m %s is left out: wirelab does not pipeline requests on HTTP/1.1", streams)
				return c.OneTarget()
			}
			if !c.Has("--http") {
				c.Set("--http", "2")
			}
			if err := c.MultiplyClients("-m", streams); err != nil {
				return err
			}
		}
		return c.OneTarget()
	},
}

// alpn uses the first protocol of a list of ALPN protocol names.
func alpn(c *flags.Command, list string) error {
	first, _, _ := strings.Cut(list, ",")
	version := map[string]string{"h2": "2", "h2c": "2", "h2-16": "2", "h2-14": "2", "http/1.1": "1.1", "h3": "3"}[first]
	if version == "" {
		return c.Refuse("wirelab speaks HTTP/1.1, 2 and 3: write --http 2")
	}
	c.Set("--http", version)
	return nil
}

// Generator runs h2load as the client of a measurement.
var Generator = generator.Generator{
	Name: "h2load", Speaks: []generator.Protocol{generator.GRPC, generator.HTTP2, generator.HTTP1},
	Find:  func() (path, version string, err error) { return generator.FindInstalled("h2load", "nghttp2-client") },
	Files: files, Arguments: arguments, ReadOutput: readOutput,
}

func files(c generator.Call) (map[string][]byte, error) {
	message := c.Message
	if c.Protocol == generator.GRPC {
		message = wire.AppendMessage(nil, c.Message)
	}
	return map[string][]byte{generator.RequestFile: message}, nil
}

// arguments names the file that h2load sends. h2load sends files by POST.
func arguments(c generator.Call) []string {
	all := []string{
		"-D", strconv.FormatInt(c.Duration.Milliseconds(), 10) + "ms", "-t", strconv.Itoa(c.EqualThreads()),
		"-c", strconv.Itoa(c.Connections), "-m", strconv.Itoa(c.Callers / c.Connections),
	}
	if c.Protocol == generator.HTTP1 {
		all = append(all, "--h1")
	}
	header := c.Header
	if c.Protocol == generator.GRPC {
		header = append([]generator.Field{{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}, header...)
	}
	for _, f := range header {
		all = append(all, "-H", strings.ToLower(f.Name)+": "+f.Value)
	}
	return append(all, "-d", generator.RequestFile, "http://"+c.Address+c.Path)
}

var (
	h2loadRequests = pattern.Lazy(`(\d+) succeeded, (\d+) failed`)
	h2loadData     = pattern.Lazy(`\((\d+)\) data`)
	h2loadTimes    = pattern.Lazy(`time for request:\s+(\S+)\s+(\S+)\s+(\S+)`)
)

// readOutput counts answers by their number of bytes. h2load ignores gRPC statuses, so it counts a
// failed call without a message as a success.
func readOutput(output string, c generator.Call) (generator.Counts, error) {
	requests, data, times := h2loadRequests().FindStringSubmatch(output), h2loadData().FindStringSubmatch(output), h2loadTimes().FindStringSubmatch(output)
	if requests == nil || data == nil || times == nil {
		return generator.Counts{}, generator.ErrIncomplete
	}
	var p generator.Parser
	succeeded, failed := p.Count(requests[1]), p.Count(requests[2])
	answered := min(succeeded, p.Count(data[1])/max(bodyBytes(c), 1))
	counts := generator.Counts{
		Requests: succeeded + failed, Failed: succeeded + failed - answered,
		Min: p.Time(times[1]), Max: p.Time(times[2]), Mean: p.Time(times[3]),
	}
	if counts.Failed > 0 {
		counts.Example = fmt.Sprintf("%d requests had no answer, and %d requests had an incomplete answer", failed, succeeded-answered)
	}
	return counts, p.Err
}

func bodyBytes(c generator.Call) int64 {
	if c.Protocol == generator.GRPC {
		return wire.PrefixLen + c.AnswerBytes
	}
	return c.AnswerBytes
}

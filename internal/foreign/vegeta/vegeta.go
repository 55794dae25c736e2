// Package vegeta reads commands of tsenart/vegeta.
package vegeta

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/foreign/flags"
)

// Tool holds the flags of tsenart/vegeta 12.12, as in its attack.go.
var Tool = &flags.Tool{
	Name:    "vegeta",
	OneDash: true,
	Options: []flags.Option{
		flags.Flag("--targets", flags.File, flags.Changed("--targets", func(file string) string {
			if file == "stdin" {
				return "-"
			}
			return file
		})),
		flags.Flag("--format", flags.OneOfWords("http or json", "http json"), flags.Ignored("both forms are recognised")),
		flags.Flag("--rate", flags.Value("a rate, as in 50 or 50/1s", isRate), flags.Kept("-rate", flags.Code("--rps")+"; 0 and infinity: a closed loop of "+flags.Code("-max-workers"))),
		flags.Flag("--duration", flags.Duration, flags.Either(flags.IsAboveZero, flags.To("-z"), flags.Refused("a run needs an end: give a duration, as in -duration=30s"))),
		flags.Flag("--max-workers", flags.Number, flags.To("-c")),
		flags.Flag("--workers", flags.Number, flags.Ignored("clients are as many from the beginning as at the end (-c)")),
		flags.Flag("--max-connections", flags.Number, flags.Either(flags.IsAboveZero, flags.Function(flags.Code("--conn pool:N"), func(c *flags.Command, n string) error {
			c.Set("--conn", "pool:"+n)
			return nil
		}), flags.Nothing)),
		flags.Flag("--connections", flags.Number, flags.Ignored("each client keeps its connection")),
		flags.Flag("--keepalive", flags.Maybe, unlessFalse("--conn", "new")),
		flags.Flag("--body", flags.File, flags.To("-D")),
		flags.Flag("--chunked", flags.None, flags.Ignored("the body is sent with its length")),
		flags.Flag("--header", flags.Header, flags.HeaderLine),
		flags.Flag("--timeout", flags.Duration, flags.To("--timeout")),
		flags.Flag("--insecure", flags.None, flags.On("-k")),
		flags.Flag("--root-certs", flags.File, flags.Function(flags.Code("--cacert")+" of one file", func(c *flags.Command, files string) error {
			if strings.Contains(files, ",") {
				return c.Refuse("write the certificates into one file, and give --cacert FILE")
			}
			c.Set("--cacert", files)
			return nil
		})),
		flags.Flag("--cert", flags.File, flags.To("--cert")),
		flags.Flag("--key", flags.File, flags.To("--key")),
		flags.Flag("--http2", flags.Maybe, unlessFalse("--http", "1.1")),
		flags.Flag("--h2c", flags.None, flags.On("--http", "2")),
		flags.Flag("--session-tickets", flags.None, flags.Ignored("a kept connection has one handshake; --conn resumed measures resumption")),
		flags.Flag("--connect-to", flags.Text, flags.To("--connect-to")),
		flags.Flag("--unix-socket", flags.File, flags.To("--unix-socket")),
		flags.Flag("--resolvers", flags.Text, flags.Refused("names are looked up as the machine does it: give --resolve HOST:PORT:ADDRESS")),
		flags.Flag("--dns-ttl", flags.Text, flags.Ignored("a name is looked up once, before the load")),
		flags.Flag("--laddr", flags.Text, flags.Refused("the machine chooses the local address: leave the flag out")),
		flags.Flag("--proxy-header", flags.Text, flags.Refused(flags.ProxyNote)),
		flags.Flag("--redirects", flags.Text, flags.Ignored(flags.RedirectNote)),
		flags.Flag("--prometheus-addr", flags.Text, flags.To("--metrics")),
		flags.Flag("--lazy", flags.None, flags.Ignored("the targets are read before the load")),
		flags.Flag("--max-body", flags.Text, flags.Ignored("answers are not kept")),
		flags.Flag("--name", flags.Text, flags.Ignored("name the run by -o DIR")),
		flags.Flag("--output", flags.Text, flags.Ignored("-o DIR stores the run")),
		flags.Flag("--cpus", flags.Number, flags.Ignored(flags.ThreadsNote)),
		flags.Flag("--profile", flags.Text, flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("--version", flags.None, flags.Refused("write wirelab version")),
	},
	Fits: func(c *flags.Command) bool { return len(c.Operands) == 0 || c.Pasted },
	Usual: func(c *flags.Command) {
		if len(c.Kept("-rate")) == 0 {
			c.SetDefault("--rps", "50")
		}
		c.SetDefault("--arrivals", "constant")
		c.SetDefault("--timeout", "30s")
		c.OwnConnections()
	},
	ReadInput: readInput,
	Settle:    settle,
}

// unlessFalse returns a rule for a flag that is on unless it is turned off, which sets a flag of wirelab.
func unlessFalse(flag, value string) flags.Rule {
	off := flags.On(flag, value)
	return flags.OneOf(off.Page+" for false", map[string]flags.Rule{"false": off}, flags.Nothing)
}

var rateForm = regexp.MustCompile(`^(\d+)(?:/(\d*\.?\d*(?:ns|us|µs|ms|s|m|h)))?$`)

func isRate(value string) bool { return value == "infinity" || rateForm.MatchString(value) }

// perSecond returns a rate in requests per second. 0 means no limit.
func perSecond(rate string) (float64, error) {
	parts := rateForm.FindStringSubmatch(rate)
	if parts == nil { // infinity
		return 0, nil
	}
	count, err := strconv.ParseFloat(parts[1], 64)
	per := parts[2]
	switch {
	case per == "":
		per = "1s"
	case strings.Trim(per, "nuµmsh") == "": // a unit alone
		per = "1" + per
	}
	every, unit := time.ParseDuration(per)
	if err = errors.Join(err, unit); err == nil && every <= 0 {
		err = errors.New("the time is 0")
	}
	if err != nil {
		return 0, fmt.Errorf("-rate %s: %w: want a rate, as in 50/1s", rate, err)
	}
	return count / every.Seconds(), nil
}

func settle(c *flags.Command) error {
	if len(c.Operands) > 0 && c.Operands[0] == "attack" {
		c.Operands = c.Operands[1:]
	} else if c.Pasted && len(c.Operands) > 0 && c.Last("input") == "" {
		return fmt.Errorf("vegeta %s makes no load: give a vegeta attack command", flags.Excerpt(c.Operands[0]))
	}
	if rate := c.Last("-rate"); rate != "" {
		perSecond, err := perSecond(rate)
		switch {
		case err != nil:
			return err
		case perSecond > 0:
			c.Set("--rps", flags.FormatNumber(perSecond))
		case !c.Has("-c"):
			return fmt.Errorf("-rate %s: vegeta then needs -max-workers: give it, as in -max-workers 10", rate)
		default:
			c.Unset("--arrivals")
			c.Note("-rate %s is a closed loop: each of the -c %s clients sends its next request after an answer", rate, c.Get("-c"))
		}
	}
	if !c.Pasted {
		return nil
	}
	if !c.Has("-c") {
		c.Set("-c", "100")
		c.Note("-c 100: vegeta adds workers while all are busy; wirelab has a fixed number of clients")
	}
	if !c.Has("-z") {
		c.Note("the command has no -duration, so it would not end: wirelab's -z ends it")
	}
	switch {
	case c.Last("input") != "":
		return c.OneTarget()
	case len(c.Operands) > 0:
		return fmt.Errorf("found %s behind the flags of vegeta: URLs stand in -targets FILE", flags.Excerpt(c.Operands[0]))
	case !c.Has("--targets"):
		c.Set("--targets", "-")
		c.Note("the targets are read from standard input")
	}
	return nil
}

// readInput translates the targets that a pipeline gives to the command.
func readInput(c *flags.Command, input flags.Input) error {
	if c.Has("--targets") && c.Get("--targets") != "-" {
		c.Note("what the pipe gives to vegeta is left out: the targets are in %s", flags.Excerpt(c.Get("--targets")))
		return nil
	}
	if input.File != "" {
		c.Set("--targets", input.File)
		return nil
	}
	request := []string{}
	for line := range strings.Lines(input.Text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			request = append(request, line)
		}
	}
	errSeveral := errors.New("the text before the pipe has several targets, or is JSON: write it into a file, and give -targets FILE")
	if len(request) == 0 {
		return errors.New("the text before the pipe has no target: want a line, as in GET http://127.0.0.1:8080/")
	}
	method, url, hasMethod := strings.Cut(request[0], " ")
	if !hasMethod {
		method, url = "GET", request[0]
	}
	if strings.HasPrefix(request[0], "{") {
		return errSeveral
	}
	for _, line := range request[1:] {
		file, isBody := strings.CutPrefix(line, "@")
		name, _, isField := strings.Cut(line, ":")
		switch {
		case isBody:
			c.Set("-D", file)
		case !isField || strings.Contains(name, " ") || strings.HasPrefix(line, "http"):
			return errSeveral
		default:
			c.Set("-H", line)
		}
	}
	c.Unset("--targets")
	c.Set("-m", method)
	c.Keep("input", "text")
	c.Operands = append(c.Operands, strings.TrimSpace(url))
	return nil
}

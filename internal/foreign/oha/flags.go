// Package oha reads commands and JSON reports of hatoo/oha.
package oha

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/foreign/flags"
)

// Flags holds the flags of hatoo/oha 1.14, with the flags of its README.
var Flags = &flags.Tool{
	Name:    "oha",
	Letters: true,
	Options: slices.Concat([]flags.Option{
		flags.Flag("-n", flags.Count, flags.By(flags.Code("-n"), thousands("-n"))),
		flags.Flag("-c", flags.Count, flags.By(flags.Code("-c"), thousands("-c"))),
		flags.Flag("-p", flags.Number, flags.Kept("-p", flags.Code("-c")+" times as many on "+flags.Code("--conn pool:N")+"; of HTTP/2 only")),
		flags.Flag("-w --wait-ongoing-requests-after-deadline", flags.None, flags.Ignored("calls under way at the end are always waited for")),
		flags.Flag("-q", flags.Rate, flags.By(flags.Code("--rps")+" (a total)", flags.PositiveRate)),
		flags.Flag("--burst-delay", flags.Duration, flags.Kept("--burst-delay", flags.Code("--rps")+" with "+flags.Code("--burst"))),
		flags.Flag("--burst-rate", flags.Number, flags.Kept("--burst-rate", flags.Code("--burst"))),
		flags.Flag("--rand-regex-url", flags.None, flags.Refused("URLs are not made from patterns: write the URLs to a file, and give --rows FILE.csv")),
		flags.Flag("--urls-from-file", flags.None, flags.Refused("a list of URLs is not read: give one URL, and --rows FILE.csv for the parts that differ")),
		flags.Flag("--latency-correction", flags.None, flags.Ignored("with a rate, wirelab always times from the intended instant")),
		flags.Flag("--no-tui --no-color --stats-success-breakdown", flags.None, flags.Ignored(flags.NoShow)),
		flags.Flag("-m --method", flags.Method, flags.To("-m")),
		flags.Flag("-t", flags.Duration, flags.To("--timeout")),
		flags.Flag("--connect-timeout", flags.Duration, flags.Ignored(flags.NoConnecting)),
		flags.Flag("-Z", flags.File, flags.By(flags.Code("--rows"), func(c *flags.Command, value string) error {
			if strings.HasSuffix(value, ".jsonl") {
				c.Set("--rows", value)
				return nil
			}
			return c.Refuse("one body per line is read from a .jsonl file: rename it, and give --rows FILE.jsonl")
		})),
		flags.Flag("-F --form", flags.Text, flags.Refused(flags.NoForm)),
		flags.Flag("-x --proxy-header --proxy-http-version", flags.Text, flags.Refused(flags.NoProxy)),
		flags.Flag("--http-version", flags.Value("1.1, 2 or 3", isHTTPVersion), flags.By(flags.Code("--http"), setHTTPVersion)),
		flags.Flag("--http2", flags.None, flags.On("--http", "2")),
		flags.Flag("-r --redirect", flags.Number, flags.Ignored(flags.NoRedirects)),
		flags.Flag("--no-pre-lookup", flags.None, flags.Ignored("a name is looked up once, before the load")),
		flags.Flag("--insecure", flags.None, flags.On("-k")),
		flags.Flag("--connect-to", flags.Text, flags.ConnectTo("--connect-to")),
		flags.Flag("--unix-socket", flags.File, flags.To("--unix-socket")),
		flags.Flag("--debug", flags.None, flags.Refused("to see one answer, leave it out: the first call is a probe, and is shown")),
		flags.Flag("-o --output", flags.ButNot("a file", flags.IsFormat), flags.By(flags.Code("-o")+": a directory", func(c *flags.Command, value string) error {
			if strings.HasSuffix(value, ".json") {
				return c.Refuse("a summary goes to standard output: write --json > " + flags.Quote(flags.Excerpt(value)))
			}
			c.Set("-o", value)
			return nil
		})),
		flags.Flag("--output-format", flags.Text, flags.By(flags.Code("--json")+" for json", setFormat)),
		flags.Flag("-j --json", flags.None, flags.On("--json")),
		flags.Flag("-u --time-unit", flags.Value("a unit", isTimeUnit), flags.Ignored(flags.NoShow)),
	}, flags.HeyRequest, flags.Certificates),
	Fits: flags.CallsHTTP,
	Usual: func(c *flags.Command) {
		c.Usually("-c", "50")
		if !c.Has("-z") {
			c.Usually("-n", "200")
		}
		c.OwnConnections()
	},
	Settle: func(c *flags.Command) error {
		c.Timed()
		if err := settleBurst(c); err != nil {
			return err
		}
		if parallel := c.Last("-p"); parallel != "" {
			if c.Get("--http") != "2" && c.Get("--http") != "3" {
				c.Note("-p %s is left out: without HTTP/2 a connection carries one call at a time", parallel)
			} else if err := c.Spread("-p", parallel); err != nil {
				return err
			}
		}
		if err := c.OneTarget(); err != nil {
			return err
		}
		return c.RedirectAddress()
	},
}

// thousands takes a number with oha's k or m.
func thousands(flag string) func(*flags.Command, string) error {
	return func(c *flags.Command, value string) error {
		digits := strings.TrimRight(value, "kKmM")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > 1e12 {
			return c.Refuse(fmt.Sprintf("%s is too large", flags.Excerpt(value)))
		}
		switch strings.ToLower(value[len(digits):]) {
		case "k":
			n *= 1_000
		case "m":
			n *= 1_000_000
		}
		c.Set(flag, strconv.FormatInt(n, 10))
		return nil
	}
}

func isHTTPVersion(value string) bool {
	return strings.Contains(" 0.9 1.0 1 1.1 2 3 ", " "+value+" ") && value != ""
}

func setHTTPVersion(c *flags.Command, value string) error {
	switch value {
	case "0.9", "1.0":
		return c.Refuse("wirelab speaks HTTP/1.1, 2 and 3: write --http 1.1")
	case "1":
		value = "1.1"
	}
	c.Set("--http", value)
	return nil
}

func setFormat(c *flags.Command, value string) error {
	switch value {
	case "json":
		c.Set("--json")
	case "text":
	case "quiet":
		return c.Refuse("write > /dev/null behind the command, with -o DIR to keep the run")
	default:
		return c.Refuse("run with -o DIR, then wirelab export DIR --format csv")
	}
	return nil
}

func isTimeUnit(value string) bool {
	return strings.Contains(" ns us ms s m h ", " "+value+" ") && value != ""
}

// settleBurst settles bursts: a number of requests, then a pause.
func settleBurst(c *flags.Command) error {
	delay, size := c.Last("--burst-delay"), c.Last("--burst-rate")
	if delay == "" {
		return nil
	}
	if c.Has("--rps") {
		c.Note("--burst-delay is left out: with -q oha ignores it")
		return nil
	}
	if size == "" {
		size = "1"
	}
	n, err := strconv.ParseFloat(size, 64)
	every := flags.ParseClock(delay)
	if err != nil || n < 1 || every <= 0 {
		return fmt.Errorf("--burst-delay %s --burst-rate %s: want both above zero", delay, size)
	}
	c.Set("--rps", flags.FormatNumber(n/every.Seconds()))
	c.Set("--burst", size)
	c.Note("%s calls each %s are --rps %s --burst %s", size, delay, c.Get("--rps"), size)
	return nil
}

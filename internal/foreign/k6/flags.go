// Package k6 reads the summaries that grafana/k6 writes. Its scripts are not run.
package k6

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/foreign/flags"
)

// Flags reads a summary as the command that loads in the same way.
var Flags = &flags.Tool{
	Name: "k6", OnlyFiles: true, ReadFile: readFile,
	IsFile: func(object map[string]json.RawMessage) bool {
		has := func(name string) bool { _, is := object[name]; return is }
		return has("metrics") && (has("root_group") || has("state"))
	},
	Options: []flags.Option{
		flags.Flag("-c", flags.Number, flags.To("-c")),
		flags.Flag("-z", flags.Duration, flags.To("-z")),
	},
	Settle: func(c *flags.Command) error {
		c.Note("method, header and data of the call are not in a summary of k6: add -m, -H and -d")
		c.Note("clients and duration are those of the whole run, with its ramps and pauses")
		return nil
	},
}

// taggedURL matches the URL in the name of a metric. A threshold for one URL makes such a metric.
var taggedURL = regexp.MustCompile(`\{.*(?:url|name):((?:https?|grpcs?)://[^\s,}]+).*\}`)

// readFile returns the clients and the duration in a summary, and the URL if a threshold names
// one.
func readFile(text string) ([]string, error) {
	if len(text) > flags.MaxTextBytes {
		return nil, fmt.Errorf("the file has %d bytes, more than any summary: give the file of --summary-export", len(text))
	}
	var report jsonReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("want the JSON file of --summary-export; a script is not run: %w", err)
	}
	if len(report.Metrics) == 0 {
		return nil, errors.New("the file has no metrics: want the JSON file of --summary-export")
	}
	words, urls := loadFlags(&report), []string{}
	for _, name := range slices.Sorted(maps.Keys(report.Metrics)) {
		if found := taggedURL.FindStringSubmatch(name); len(found) > 1 && !slices.Contains(urls, found[1]) {
			urls = append(urls, found[1])
		}
	}
	if len(urls) == 1 {
		return append(words, urls[0]), nil
	}
	why := "a summary does not say what was called"
	if len(urls) > 1 {
		why = fmt.Sprintf("the summary is of %d URLs, and their shares are unknown", len(urls))
	}
	return nil, fmt.Errorf("%s: write %s", why, strings.Join(append([]string{"wirelab load URL"}, words...), " "))
}

// loadFlags returns the flags for the clients and the duration in a summary.
func loadFlags(report *jsonReport) []string {
	words := []string{}
	if clients := report.Metrics["vus_max"]["max"]; clients >= 1 && clients < 1e6 {
		words = append(words, "-c", strconv.Itoa(int(clients)))
	}
	requests := report.Metrics["http_reqs"]
	if requests["count"] == 0 {
		requests = report.Metrics["iterations"]
	}
	seconds := report.State.TestRunDurationMs / 1e3
	if seconds == 0 && requests["rate"] > 0 {
		seconds = requests["count"] / requests["rate"]
	}
	if seconds >= 0.1 && seconds < 1e6 {
		lasts := time.Duration(seconds * float64(time.Second)).Round(time.Second / 10)
		words = append(words, "-z", flags.ShortDuration(lasts))
	}
	return words
}

package takeover

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// k6Summary is what is read of a summary of k6: --summary-export, whose metrics have their
// figures in themselves, or handleSummary's data, which has them in values.
type k6Summary struct {
	State struct {
		Milliseconds float64 `json:"testRunDurationMs"`
	} `json:"state"`
	Metrics map[string]k6Metric `json:"metrics"`
}

type k6Metric struct {
	k6Figures
	Values k6Figures `json:"values"`
}

type k6Figures struct {
	Max   float64 `json:"max"`
	Count float64 `json:"count"`
	Rate  float64 `json:"rate"`
}

func (m k6Metric) figures() k6Figures {
	if m.Values != (k6Figures{}) {
		return m.Values
	}
	return m.k6Figures
}

// k6URL is a tag with the URL, as a threshold of a single one has it in its metric's name.
var k6URL = regexp.MustCompile(`\{.*(?:url|name):((?:https?|grpcs?)://[^\s,}]+).*\}`)

// fromK6 takes from a summary what it has: clients and duration, and the URL only where a
// threshold was set for it.
func fromK6(text string) (arguments, told []string, err error) {
	var summary k6Summary
	if len(text) > maxTextBytes {
		return nil, nil, fmt.Errorf("--from k6: the file has %d bytes, and no summary has: give the one of --summary-export", len(text))
	}
	if err := json.Unmarshal([]byte(text), &summary); err != nil {
		return nil, nil, fmt.Errorf("--from k6: want the JSON file of --summary-export; a script is not run: %w", err)
	}
	if len(summary.Metrics) == 0 {
		return nil, nil, errors.New("--from k6: the file has no metrics: want the JSON file of --summary-export")
	}
	flags := summary.flags()
	urls := []string{}
	for _, name := range slices.Sorted(maps.Keys(summary.Metrics)) {
		if found := k6URL.FindStringSubmatch(name); len(found) > 1 && !slices.Contains(urls, found[1]) {
			urls = append(urls, found[1])
		}
	}
	if len(urls) != 1 {
		why := "a summary does not say what was called"
		if len(urls) > 1 {
			why = fmt.Sprintf("the summary is of %d URLs, and their shares are unknown", len(urls))
		}
		command := "wirelab load URL"
		for _, word := range flags {
			command += " " + quote(word)
		}
		return nil, nil, fmt.Errorf("--from k6: %s: write %s", why, command)
	}
	told = []string{
		"method, header and data of the call are not in a summary of k6: add -m, -H and -d",
		"clients and duration are those of the whole run, with its ramps and pauses",
	}
	return append(flags, urls[0]), told, nil
}

// flags are what a summary tells of the load.
func (s *k6Summary) flags() []string {
	flags := []string{}
	if clients := s.Metrics["vus_max"].figures().Max; clients >= 1 && clients < 1e6 {
		flags = append(flags, "-c", strconv.Itoa(int(clients)))
	}
	requests := s.Metrics["http_reqs"].figures()
	if requests.Count == 0 {
		requests = s.Metrics["iterations"].figures()
	}
	seconds := s.State.Milliseconds / 1e3
	if seconds == 0 && requests.Rate > 0 {
		seconds = requests.Count / requests.Rate
	}
	if seconds >= 0.1 && seconds < 1e6 {
		lasts := time.Duration(seconds * float64(time.Second)).Round(time.Second / 10)
		flags = append(flags, "-z", length(lasts))
	}
	return flags
}

package catalog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/own"
)

func TestWorkloadsDescribeThemselves(t *testing.T) {
	for _, w := range Workloads() {
		info := w.Info()
		found, settings, err := Find(info.Name)
		if err != nil || found != w || len(settings) != 0 {
			t.Errorf("Find(%q) = %v, %v, %v", info.Name, found, settings, err)
		}
		if info.Summary == "" || strings.Contains(info.Summary, "\n") || info.Operations < 1 && info.Name != own.Name {
			t.Errorf("%s says of itself %q and has %d operations", info.Name, info.Summary, info.Operations)
		}
		var keys []string
		for _, o := range info.Options {
			keys = append(keys, o.Key)
			checkOption(t, w, o)
		}
		if slices.Sort(keys); len(slices.Compact(keys)) != len(keys) {
			t.Errorf("%s: an option is there twice: %v", info.Name, keys)
		}
		// The sizes of a message of one's own are that message's.
		if err := w.Check(workload.Parameters{RequestBytes: 64, ResponseBytes: 4096}); (err == nil) != info.Sized && info.Name != "message" {
			t.Errorf("%s: sized: %v; with sizes: %v", info.Name, info.Sized, err)
		}
	}
}

func checkOption(t *testing.T, w workload.Workload, o scenario.Option) {
	t.Helper()
	info := w.Info()
	if o.Help == "" || strings.Contains(o.Help, "\n") {
		t.Errorf("%s: %s is explained as %q", info.Name, o.Key, o.Help)
	}
	if len(o.Values) > 0 && !slices.Contains(o.Values, o.Default) {
		t.Errorf("%s: %s is %q by default, and takes %v", info.Name, o.Key, o.Default, o.Values)
	}
	for _, value := range o.Values {
		text := scenario.Variant{Stack: info.Name, Options: []scenario.Setting{{Key: o.Key, Value: value}}}.String()
		if _, _, err := Find(text); err != nil {
			t.Errorf("%s is offered and refused: %v", text, err)
		}
	}
}

func TestBadTextsAreExplained(t *testing.T) {
	for text, says := range map[string]string{
		"ehco":                              "did you mean echo?",
		"nothing-like-it":                   "want one of echo, ping, users, store, chat",
		"echo:stal=5ms":                     "did you mean stall?",
		"echo:stall=5":                      "stall=5: want a time, as in 5ms",
		"echo:every=9":                      "has no effect without stall",
		"ping:stall=1ms,every=0":            "whole number from 1",
		"users:op=getuser":                  "did you mean get-user?",
		"users:mix=get-user*0":              "whole number from 1",
		"users:mix=get-usr*2":               "did you mean get-user?",
		"users:mix=get-user+get-user":       "occurs twice",
		"users:op=get-user,mix=get-users*2": "set only one",
		"users:work=10":                     "want a time",
		"Echo":                              "lower-case",
		"echo:stall":                        "key=value",
	} {
		if _, _, err := Find(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", text, err, says)
		}
	}
}

func TestWorkIsKnownWhereOptionsTellIt(t *testing.T) {
	for text, want := range map[string]time.Duration{"users": 10 * time.Millisecond, "users:op=get-user,work=2ms": 2 * time.Millisecond, "users:work=0s": 0, "echo": -1, "nothing": -1, "ping:stall=5ms,every=1": 5 * time.Millisecond, "ping:stall=5ms": -1, "ping": -1} {
		work, known := SimulatedWork(text)
		if known != (want >= 0) || known && work != want {
			t.Errorf("%s: %v, %v; want %v", text, work, known, want)
		}
	}
}

package ghz

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/foreign/flags"
)

// isFile reports whether an object is a report of ghz or its configuration.
func isFile(object map[string]json.RawMessage) bool {
	has := func(name string) bool { _, is := object[name]; return is }
	return has("host") && has("call") || has("options") && has("statusCodeDistribution")
}

// readFile returns the flags in a JSON file of ghz: a report, which has them under options, or a
// configuration, whose names are the flags'.
func readFile(text string) ([]string, error) {
	if len(text) > flags.MaxFileBytes {
		return nil, fmt.Errorf("the file has %d bytes: at most %d are read: ghz's report has its options at the top; keep those", len(text), flags.MaxFileBytes)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("the file is no JSON: %w", err)
	}
	if options, is := entries["options"]; is {
		entries = nil
		if err := json.Unmarshal(options, &entries); err != nil {
			return nil, fmt.Errorf("options in the report: %w", err)
		}
	}
	if _, is := entries["host"]; !is {
		return nil, errors.New("the file names no host: is it a report of ghz (-O json), or its configuration?")
	}
	words := []string{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		found, err := entryFlags(key, entries[key])
		if err != nil {
			return nil, fmt.Errorf("%s in the file: %w", key, err)
		}
		words = append(words, found...)
	}
	return words, nil
}

// entryFlags returns the flag of an entry, or none if the entry says nothing.
func entryFlags(key string, raw json.RawMessage) ([]string, error) {
	switch key {
	case "host":
		var host string
		err := json.Unmarshal(raw, &host)
		return []string{host}, err
	case "CPUs", "cpus", "dial-timeout", "connect-timeout", "output", "format", "$schema":
		return nil, nil // of the file's own making, or nothing that is measured changes by it
	case "data":
		return []string{"--data=" + string(raw)}, nil
	case "metadata":
		return mapFlag("--metadata", raw)
	case "reflect-metadata":
		return mapFlag("--reflect-metadata", raw)
	case "tags":
		return nil, nil
	}
	if flags.Find(options, "--"+key) == nil {
		return nil, errors.New("wirelab does not know this flag: leave it out")
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return valueFlag(key, value)
}

func mapFlag(flag string, raw json.RawMessage) ([]string, error) {
	if s := strings.TrimSpace(string(raw)); s == "null" || s == "{}" {
		return nil, nil
	}
	return []string{flag + "=" + string(raw)}, nil
}

func valueFlag(key string, value any) ([]string, error) {
	flag := "--" + key
	switch v := value.(type) {
	case nil:
		return nil, nil
	case bool:
		if !v {
			return nil, nil
		}
		return []string{flag}, nil
	case string:
		if v == "" || v == "0" || v == "0s" {
			return nil, nil
		}
		return []string{flag + "=" + v}, nil
	case float64:
		if v == 0 {
			return nil, nil
		}
		if strings.Contains(key, "duration") || key == "timeout" || key == "keepalive" || key == "stream-interval" {
			return []string{flag + "=" + time.Duration(v).String()}, nil // nanoseconds, in a report
		}
		return []string{flag + "=" + strconv.FormatFloat(v, 'f', -1, 64)}, nil
	case []any:
		parts := []string{}
		for _, part := range v {
			parts = append(parts, fmt.Sprint(part))
		}
		if len(parts) == 0 {
			return nil, nil
		}
		return []string{flag + "=" + strings.Join(parts, ",")}, nil
	}
	return nil, fmt.Errorf("an object is no value of a flag")
}

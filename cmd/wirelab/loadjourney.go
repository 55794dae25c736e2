package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/journey"
)

// journeyFlags are about a target that is a file of what users do.
type journeyFlags struct {
	target string // in place of the file's

	name   string
	file   []byte
	script *journey.Script // nil: the target is no such file
	drawn  bool
}

func (j *journeyFlags) register(f *pflag.FlagSet) {
	f.StringVar(&j.target, "target", "", "`URL` of the service, in place of the one in a .yaml file")
}

// mostJourney bounds a file.
const mostJourney = 64 << 10

// read reads the file, if the target is one, and returns the target in it.
func (j *journeyFlags) read(text string) (string, error) {
	if extension := filepath.Ext(text); extension != ".yaml" && extension != ".yml" || strings.Contains(text, "://") {
		if j.target != "" {
			return "", errors.New("--target is for a .yaml file: name the URL itself")
		}
		return text, nil
	}
	var err error
	if j.file, err = plan.ReadFile(text, mostJourney); err != nil {
		return "", err
	}
	j.name = filepath.Base(text)
	if j.script, err = journey.Parse(text, j.file); err != nil {
		return "", err
	}
	target := j.script.Target
	if j.target != "" {
		target = j.target
	}
	if target == "" {
		return "", fmt.Errorf("%s names no target: write `target: http://…`, or give --target URL", text)
	}
	where, err := url.Parse(target)
	if err != nil || where.Path != "" && where.Path != "/" || where.RawQuery != "" || where.Scheme != "http" && where.Scheme != "https" {
		return "", fmt.Errorf("%s: found the target %q: want http:// or https:// with a host and no path: steps have the paths", text, target)
	}
	return target, nil
}

// check holds the load against the file.
func (j *journeyFlags) check(s *scenario.Scenario, l *loading) error {
	if j.script == nil {
		return nil
	}
	for _, flag := range []string{"method", "data", "data-file", "content-type", "rows", "random", "call", "proto", "protoset"} {
		if l.given(flag) {
			return fmt.Errorf("--%s: the steps in %s say that", flag, j.name)
		}
	}
	if l.given("traceparent") {
		return fmt.Errorf("--traceparent: not with steps: write the header into %s", j.name)
	}
	j.drawn = s.Parts[0].Load.Model != scenario.Closed
	least := slices.Min(s.Parts[0].Clients)
	if name, from := j.script.Missing(least); name != "" && !j.drawn {
		return fmt.Errorf("-c %d: by their weights none of so many users is a %s: want %d or more, or other weights in %s", least, name, from, j.name)
	}
	return nil
}

// apply puts the file into the definition.
func (j *journeyFlags) apply(d *service.Definition) {
	if j.script != nil {
		d.Journey = &service.Journey{Name: j.name, File: j.file, Drawn: j.drawn}
	}
}

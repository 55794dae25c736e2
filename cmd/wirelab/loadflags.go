package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/journey"
	"wirelab.dev/internal/wire/service/reach"
)

// methodFlags says where a method of gRPC is described.
type methodFlags struct {
	reach.Method
	call      string
	plaintext bool
}

func (m *methodFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.Proto, "proto", "", "gRPC: the .proto `file` that has the service (default: the server is asked, by reflection)")
	f.StringArrayVar(&m.Imports, "import-path", nil, "gRPC: `directory` that --proto and its imports are found in (default: the file's own)")
	f.StringVar(&m.Protoset, "protoset", "", "gRPC: a `file` of descriptors, as protoc --descriptor_set_out or buf build -o writes")
	f.StringVar(&m.call, "call", "", "gRPC: the `method`, as in pkg.Service/Method, where the target does not name it")
	f.BoolVar(&m.plaintext, "plaintext", false, "gRPC: a target without a scheme is called without TLS")
	f.DurationVar(&m.Pace, "pace", 0, "gRPC: `time` between two messages that a call sends")
	f.IntVar(&m.Messages, "messages", 1, "gRPC: how many times each streaming call sends its `messages`")
}

// isGRPC reports whether the flags are about gRPC.
func (m *methodFlags) isGRPC() bool {
	return m.call != "" || m.Proto != "" || m.Protoset != "" || m.plaintext
}

// usualScheme returns the scheme of a target that has none.
func (m *methodFlags) usualScheme() string {
	switch {
	case m.isGRPC() && m.plaintext:
		return "grpc"
	case m.isGRPC():
		return "grpcs"
	default:
		return "http"
	}
}

// apply puts the method into the target.
func (m *methodFlags) apply(t *service.Target) error {
	switch {
	case !t.Wire.IsGRPC() && m.isGRPC():
		return errors.New("--call, --proto, --protoset and --plaintext are about gRPC: write grpc:// or grpcs://")
	case !t.Wire.IsGRPC():
		return nil
	case m.Pace < 0:
		return fmt.Errorf("--pace: found %v: want more than 0s", m.Pace)
	case m.Messages < 1:
		return fmt.Errorf("--messages: found %d: want 1 or more", m.Messages)
	case t.Path == "" && m.call == "":
		return fmt.Errorf("target %s: it names no method: write it behind the port, as in %s/pkg.Service/Method, or with --call", t, t)
	case t.Path == "":
		t.Path = "/" + strings.TrimPrefix(m.call, "/")
	case m.call != "":
		return fmt.Errorf("--call %s: the target names the method %s already: give one of the two", m.call, t.Path)
	}
	return nil
}

// expectFlags holds the conditions of a right answer.
type expectFlags struct {
	conditions []string
	share      float64
}

func (e *expectFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&e.conditions, "expect", nil, "`condition` of a right answer, as in 'status == 201', 'json(.ok) == true' or 'latency < 20ms' (default: a status below 400, or OK); "+
		"it may use "+expect.Usable)
	f.Float64Var(&e.share, "expect-sample", 1, "`share` of the answers whose bodies --expect looks at, from 0 to 1")
}

// apply checks the conditions and puts them into the definition.
func (e *expectFlags) apply(d *service.Definition) error {
	for _, text := range e.conditions {
		if _, err := expect.Parse(text, d.Wire.Kind()); err != nil {
			return fmt.Errorf("--expect: %w", err)
		}
	}
	if !(e.share > 0 && e.share <= 1) {
		return fmt.Errorf("--expect-sample: found %v: want a share above 0, up to 1", e.share)
	}
	d.Expect = e.conditions
	if e.share < 1 {
		d.ExpectSample = e.share
	}
	return nil
}

// trace has a share of the requests carry a traceparent.
func (l *loading) trace(d *service.Definition) error {
	switch {
	case !l.given("traceparent"):
		return nil
	case !(l.traced > 0 && l.traced <= 1):
		return fmt.Errorf("--traceparent: found %v: want a share above 0, at most 1, as in 0.01", l.traced)
	}
	for _, request := range d.Requests {
		for _, f := range request.Header {
			if strings.EqualFold(f.Name, service.TraceField) {
				return errors.New("--traceparent and -H traceparent: give one of them")
			}
		}
	}
	d.Trace = &service.Trace{Share: l.traced}
	return nil
}

// refuseLink says why a service of the user's own is not loaded over an emulated link, and how to
// come by one. An end of a link is a network namespace that wirelab makes, in which the server
// must listen: this one listens elsewhere already. An interface in the machine's own network
// would reach it only where it listens on every address, and would be there for all programs.
func refuseLink(links []string) error {
	wanted := slices.IndexFunc(links, func(text string) bool { return text != plan.NoLink })
	if wanted < 0 {
		return nil
	}
	network, err := scenario.ParseLink(links[wanted])
	if err != nil {
		return fmt.Errorf("--link: %w", err)
	}
	netem := "delay 5ms loss 1%"
	if up, down := network.Ways(); up == down {
		netem = netemOf(up)
	}
	return fmt.Errorf("--link: both ends of an emulated link are network namespaces of the trial's own, and a service that runs already cannot be moved into one: slow down the interface that it is reached over, as in `tc qdisc add dev lo root netem %s`, for all programs until `tc qdisc del dev lo root`; or start it by `ip netns exec`, at the other end of a veth pair with that qdisc, and load its address there; stacks of wirelab's own are compared over a link by `wirelab compare --link %s`",
		netem, links[wanted])
}

// netemOf writes a path in the words of tc-netem(8), as far as it has them.
func netemOf(p scenario.Path) string {
	var words []string
	if p.Delay > 0 {
		words = append(words, "delay "+time.Duration(p.Delay).String())
		if p.Jitter > 0 {
			words = append(words, time.Duration(p.Jitter).String())
		}
	}
	if p.Loss > 0 {
		words = append(words, fmt.Sprintf("loss %g%%", 100*float64(p.Loss)))
	}
	if p.Rate > 0 {
		words = append(words, fmt.Sprintf("rate %dbit", p.Rate))
	}
	if len(words) == 0 {
		return "delay 5ms"
	}
	return strings.Join(words, " ")
}

// journeyFlags holds the flags for a target that is a file of what users do.
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
		return fmt.Errorf("-c %d: by their weights no user is a %s: want %d or more, or other weights in %s", least, name, from, j.name)
	}
	return nil
}

// apply puts the file into the definition.
func (j *journeyFlags) apply(d *service.Definition) {
	if j.script != nil {
		d.Journey = &service.Journey{Name: j.name, File: j.file, Drawn: j.drawn}
	}
}

package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
)

// The limits of a scenario. A larger number is probably a typing error, which the user would
// otherwise notice only after hours.
const (
	maxTrials   = 10_000
	maxClients  = 100_000
	maxRequests = 1_000_000_000 // per client
)

// A checker checks a decoded scenario. It finds the position of an error in the syntax tree.
type checker struct {
	tree  *ast.MappingNode
	words Vocabulary
}

// Check checks a scenario that was not read from a file.
func (s *Scenario) Check(words Vocabulary) error {
	c := checker{tree: &ast.MappingNode{}, words: words}
	if problem := c.scenario(s); problem != nil {
		return problem
	}
	return nil
}

// KeyOf returns the key whose value caused an error of [Scenario.Check], or an empty text.
func KeyOf(err error) string {
	if p, is := errors.AsType[*problem](err); is {
		return p.key
	}
	return ""
}

// A treePath is a path to a value in a scenario: keys, and indices of list elements.
type treePath []any

// problem returns an error at a path, or at the nearest enclosing value that the file contains.
func (c *checker) problem(at treePath, format string, args ...any) *problem {
	node, _ := findNode(c.tree, at)
	p := problemf(node, format, args...)
	for _, step := range at {
		if key, is := step.(string); is {
			p.key = key
		}
	}
	return p
}

func (c *checker) scenario(s *Scenario) *problem {
	switch {
	case !isWord(s.Name):
		return c.problem(treePath{"name"}, "the scenario needs a name of lower-case letters, digits and dashes, found %q", s.Name)
	case !(s.Reduction.Requests > 0 && s.Reduction.Requests <= 1):
		return c.problem(treePath{"quick", "requests"}, "requests: want a share above 0 and up to 1, found %v", s.Reduction.Requests)
	case s.Reduction.MaxClients < 1:
		return c.problem(treePath{"quick", "max-clients"}, "max-clients: want 1 or more, found %d", s.Reduction.MaxClients)
	case s.Reduction.Repeats < 1:
		return c.problem(treePath{"quick", "repeats"}, "repeats: want 1 or more, found %d", s.Reduction.Repeats)
	case len(s.Parts) == 0:
		return c.problem(treePath{"parts"}, "nothing to measure: `parts` needs at least one part")
	}
	trials := 0
	for i, p := range s.Parts {
		if problem := c.part(treePath{"parts", i}, p); problem != nil {
			return problem
		}
		if slices.Contains(s.partNames()[:i], p.Name) {
			return c.problem(treePath{"parts", i, "name"}, "found a second part named %q: every part needs its own name", p.Name)
		}
		if trials += p.trials(); trials > maxTrials {
			return c.problem(treePath{"parts", i}, "too large: the parts up to %s have more than %d trials; use fewer sizes, clients, stacks or repeats", p.Name, maxTrials)
		}
	}
	for i := range s.Claims {
		if err := c.claim(s, &s.Claims[i]); err != nil {
			return c.problem(treePath{"claims", i}, "%v", err)
		}
	}
	return c.report(s.Report)
}

func (c *checker) part(at treePath, p Part) *problem {
	in := func(steps ...any) treePath { return append(slices.Clone(at), steps...) }
	switch {
	case !isWord(p.Name):
		return c.problem(in("name"), "the part needs a name of lower-case letters, digits and dashes, found %q", p.Name)
	case len(p.Stacks) == 0 && len(p.Yardsticks) == 0: // a run may select yardsticks
		return c.problem(in("stacks"), "part %s has no stacks, so its matrix is empty: write for example `stacks: [tcp, grpc]`", p.Name)
	case len(p.Sizes) == 0:
		return c.problem(in("sizes"), "part %s has no sizes, so its matrix is empty: write for example `sizes: [64, 4KiB]`", p.Name)
	case len(p.Clients) == 0:
		return c.problem(in("clients"), "part %s has no clients, so its matrix is empty: write for example `clients: [1, 50]`", p.Name)
	case p.Repeats < 1:
		return c.problem(in("repeats"), "repeats: want 1 or more, found %d", p.Repeats)
	case len(p.Changes) > 0 && len(p.Changes) >= len(p.Stacks):
		return c.problem(in("changes"), "part %s has %d changes, which need %d stacks; found %d", p.Name, len(p.Changes), len(p.Changes)+1, len(p.Stacks))
	case p.Profile != "" && p.Profile != Allocations:
		return c.problem(in("profile"), "profile: %s", spelling.Suggest(string(p.Profile), []string{string(Allocations)}))
	case p.Profile != "" && len(p.Probes) > 0:
		return c.problem(in("profile"), "part %s has both probes and `profile`: leave out `profile`, and write `probes: [alloc]`", p.Name)
	case p.WarmUp.AtLeast < 0:
		return c.problem(in("warm-up", "at-least"), "at-least: want 0s or more, found %v", p.WarmUp.AtLeast)
	case p.WarmUp.AtMost < p.WarmUp.AtLeast:
		return c.problem(in("warm-up"), "the longest warm-up, `at-most` (%v), is shorter than `at-least` (%v)", p.WarmUp.AtMost, p.WarmUp.AtLeast)
	}
	for i, step := range p.Steps {
		for _, size := range []Size{step.From, step.To} {
			if step.From >= step.To || !slices.Contains(p.Sizes, Payload{size, size}) {
				return c.problem(in("steps", i), "a step from %v to %v: want two of the part's sizes, the smaller first", step.From, step.To)
			}
		}
	}
	for i, only := range p.Only {
		if !slices.Contains(p.Sizes, only.Size) || !slices.Contains(p.Clients, only.Clients) ||
			!slices.ContainsFunc(p.Stacks, func(v Variant) bool { return v.String() == only.Stack.String() }) {
			return c.problem(in("only", i), "only: found %v with %v and clients %d: the part lacks this stack, size or number of clients", only.Stack, only.Size, only.Clients)
		}
	}
	for _, check := range []func(func(...any) treePath, Part) *problem{c.axes, c.network, c.load, c.levers} {
		if problem := check(in, p); problem != nil {
			return problem
		}
	}
	return nil
}

// levers checks that the part has a stack for each lever.
func (c *checker) levers(in func(...any) treePath, p Part) *problem {
	l := p.Levers
	if l.Figure == "" && l.Against.Stack == "" && l.Tried == nil && l.NotTried == nil {
		return nil
	}
	has := func(v Variant) bool {
		all := slices.Concat(p.Stacks, p.Yardsticks) // a stack that cannot be measured here is among the yardsticks
		return slices.ContainsFunc(all, func(one Variant) bool { return one.String() == v.String() })
	}
	switch {
	case !slices.Contains([]string{"", "mean", "p99", "cpu"}, l.Figure):
		return c.problem(in("levers", "figure"), "figure: found %q: want mean, p99 or cpu", l.Figure)
	case len(l.Tried) == 0:
		return c.problem(in("levers", "tried"), "part %s tries no lever: list other variants of the first stack under `stacks`, or leave `levers` out", p.Name)
	case l.Against.Stack != "" && !has(l.Against):
		return c.problem(in("levers", "against"), "against: the part has no stack %s: list it under `stacks`", l.Against)
	}
	for i, lever := range l.Tried {
		for _, v := range append([]Variant{lever.Stack}, lever.Both...) {
			if !has(v) || v.String() == p.Stacks[0].String() {
				return c.problem(in("levers", "tried", i), "the lever %s: the part has no changed stack %s: list it under `stacks`, after the first", lever.Name, v)
			}
		}
	}
	return nil
}

func (c *checker) axes(in func(...any) treePath, p Part) *problem {
	seen := map[string]bool{}
	twice := func(axis, text string) bool {
		key := axis + " " + text
		defer func() { seen[key] = true }()
		return seen[key]
	}
	if err := c.words.CheckWorkload(p.Workload); err != nil {
		return c.problem(in("workload"), "%v", err)
	}
	for _, list := range []struct {
		key      string
		variants []Variant
	}{{"stacks", p.Stacks}, {"yardsticks", p.Yardsticks}} {
		for i, v := range list.variants {
			if err := c.words.CheckVariant(v, p); err != nil {
				return c.problem(in(list.key, i), "%v", err)
			}
			if twice("stacks", v.String()) {
				return c.problem(in(list.key, i), "stack %s is listed twice: for more measurements raise `repeats`", v)
			}
		}
	}
	for i, n := range p.Clients {
		if n < 1 || n > maxClients {
			return c.problem(in("clients", i), "clients: want 1 to %d, found %d", maxClients, n)
		}
		if twice("clients", strconv.Itoa(n)) {
			return c.problem(in("clients", i), "the number of clients %d is listed twice: for more measurements raise `repeats`", n)
		}
	}
	for i, size := range p.Sizes {
		if err := c.words.CheckPayload(p, size); err != nil {
			return c.problem(in("sizes", i), "%v", err)
		}
		if twice("sizes", size.String()) {
			return c.problem(in("sizes", i), "size %v is listed twice: for more measurements raise `repeats`", size)
		}
	}
	return nil
}

func (c *checker) report(r Report) *problem {
	in := func(steps ...any) treePath { return append(treePath{"report", "table"}, steps...) }
	switch {
	case r.Table.File == "" && len(r.Table.Columns) == 0:
		return nil
	case !isWord(r.Table.File):
		return c.problem(in("file"), "the table needs a file name of lower-case letters, digits and dashes, found %q", r.Table.File)
	}
	for i, column := range r.Table.Columns {
		if err := c.words.CheckColumn(column); err != nil {
			return c.problem(in("columns", i), "%v", err)
		}
	}
	return nil
}

func (c *checker) claim(s *Scenario, claimed *Claim) error {
	if claimed.Says == "" {
		return errors.New("a claim needs `says`: what is claimed")
	}
	if err := c.resolve(s, claimed); err != nil {
		return err
	}
	for _, number := range []struct {
		key   string
		value float64
	}{{"ratio", claimed.Ratio}, {"at-least", claimed.AtLeast}, {"at-most", claimed.AtMost}} {
		if number.value < 0 || math.IsNaN(number.value) || math.IsInf(number.value, 0) {
			return fmt.Errorf("%s: want more than 0, found %v", number.key, number.value)
		}
	}
	switch {
	case claimed.Ratio == 1:
		return errors.New("claimed: found a ratio of 1, which says neither more nor less: write `at-least: 1` or `at-most: 1`, or leave `claimed` out to claim more than 1")
	case claimed.Ratio > 0 && (claimed.AtLeast > 0 || claimed.AtMost > 0):
		return errors.New("found `claimed` beside `at-least` or `at-most`: leave one or the other out")
	case claimed.AtLeast > 0 && claimed.AtMost > 0 && claimed.AtLeast >= claimed.AtMost:
		return fmt.Errorf("found `at-least` %v and `at-most` %v: want `at-least` below `at-most`", claimed.AtLeast, claimed.AtMost)
	}
	if bases := []Basis{"", BasisPublished, BasisInferred, BasisOwnBounds, BasisOwn}; !slices.Contains(bases, claimed.Basis) {
		return fmt.Errorf("basis: want published, inferred, own bounds or own, found %q", claimed.Basis)
	}
	if err := claimed.Needs.check(); err != nil {
		return fmt.Errorf("needs: %w", err)
	}
	_, err := s.Needs(claimed)
	return err
}

func (n Precondition) check() error {
	switch {
	case n == Precondition{}:
		return nil
	case n.Says == "":
		return errors.New("`says` is missing: write in it what the test needs, as in `CPU to spare at both ends`")
	case (n.Find == "") != (n.AtLeast == 0 && n.AtMost == 0):
		return errors.New("want `find` with `at-least` or `at-most`; or neither, if nothing can test the claim")
	case n.AtLeast < 0 || n.AtMost < 0:
		return fmt.Errorf("want bounds above 0, found `at-least` %v and `at-most` %v", n.AtLeast, n.AtMost)
	}
	return nil
}

func (c *checker) resolve(s *Scenario, claimed *Claim) error {
	if claimed.Claimed == "" {
		return nil
	}
	table := &claim.PublishedTable{}
	if s.Published != "" && c.words.Published != nil {
		var err error
		if table, err = c.words.Published(s.Published); err != nil {
			return fmt.Errorf("published: %w", err)
		}
	}
	value, inferred, err := table.Evaluate(string(claimed.Claimed))
	if err != nil {
		return fmt.Errorf("claimed: %w", err)
	}
	if claimed.Ratio = value; inferred && claimed.Basis == "" {
		claimed.Basis = BasisInferred
	}
	return nil
}

func (c *checker) load(in func(...any) treePath, p Part) *problem {
	l := p.Load
	var models []string
	for _, form := range loadModels {
		models = append(models, string(form.model))
	}
	i := slices.Index(models, string(l.Model))
	if i < 0 {
		return c.problem(in("load", "model"), "load: want model: %s, found %q", strings.Join(models, ", "), l.Model)
	}
	form := loadModels[i]
	var given []string
	for _, key := range l.keys() {
		switch {
		case !key.set:
			continue
		case !slices.Contains(form.needs, key.name) && !slices.Contains(form.may, key.name):
			return c.problem(in("load", key.name), "%s has no %s: write for example `%s`", form.what, key.name, form.example)
		case !key.valid:
			return c.problem(in("load", key.name), "%s: want %s, found %v", key.name, key.want, key.value)
		}
		given = append(given, key.name)
	}
	for _, key := range form.needs {
		if !slices.Contains(given, key) {
			return c.problem(in("load"), "%s needs %s: write for example `%s`", form.what, key, form.example)
		}
	}
	if l.Model == Closed && len(given) != 1 {
		return c.problem(in("load"), "a closed loop needs exactly one of requests (per client), total-requests (of all clients) and duration, as in `%s`", form.example)
	}
	if l.Model == Ramp {
		_, err := l.Stages.Parse(l.Rate)
		switch {
		case (l.Stages != "") == (l.To != 0):
			return c.problem(in("load"), "a ramp needs either to, the final rate, or stages: write for example `%s` or `{model: ramp, stages: 30s:100,2m:500,30s:0}`", form.example)
		case l.To != 0 && l.Rate == 0:
			return c.problem(in("load"), "a ramp with a final rate needs rate, the initial one: write for example `%s`", form.example)
		case l.Stages != "" && err != nil:
			return c.problem(in("load", "stages"), "stages: %v", err)
		}
	}
	if fit := max(1, math.Round(l.Rate*time.Duration(l.Duration).Seconds())); l.Model == Open && float64(l.Total) > fit {
		return c.problem(in("load", "total-requests"), "total-requests: %v per second for %v are %.0f requests, fewer than the %d of total-requests: write a longer duration", l.Rate, l.Duration, fit, l.Total)
	}
	if most := slices.Max(p.Clients); l.Model == Closed && l.Total > 0 && l.Total < most {
		return c.problem(in("load", "total-requests"), "total-requests: %d are fewer than the %d clients: each client needs at least one request", l.Total, most)
	}
	return nil
}

func (c *checker) network(in func(...any) treePath, p Part) *problem {
	n := p.Network
	switch {
	case n.Ports != 0 && (n.Ports < minPorts || n.Ports > maxPorts):
		return c.problem(in("network", "ports"), "ports: want %d to %d, found %d", minPorts, maxPorts, n.Ports)
	case n.MTU != 0 && (n.MTU < minMTU || n.MTU > maxMTU):
		return c.problem(in("network", "mtu"), "mtu: want %d to %d bytes, found %d", minMTU, maxMTU, n.MTU)
	}
	up, down := n.Directions()
	for _, way := range []Path{up, down} {
		switch {
		case way.Delay < 0 || way.Delay > maxDelay:
			return c.problem(in("network", "delay"), "delay: want 0s to %v, found %v", maxDelay, way.Delay)
		case way.Jitter < 0 || way.Jitter > way.Delay:
			return c.problem(in("network"), "jitter: want 0s to the delay (%v), found %v", way.Delay, way.Jitter)
		case way.Queue != 0 && way.Rate == 0:
			return c.problem(in("network"), "queue: a queue needs a rate: give a rate, or leave the queue out")
		case way.Queue != 0 && int(way.Queue) < cmp.Or(n.MTU, defaultMTU)+headerBytes:
			return c.problem(in("network"), "queue: want at least a packet with its header, %d bytes, found %d", cmp.Or(n.MTU, defaultMTU)+headerBytes, way.Queue)
		}
	}
	return nil
}

// A loadKey is a key of a load in the file, and a check of its value.
type loadKey struct {
	name  string
	set   bool
	valid bool
	want  string
	value any
}

func (l Load) keys() []loadKey {
	const aRate = "requests per second above 0, of all clients together"
	count := fmt.Sprintf("1 to %d", maxRequests)
	isCount := func(n int) bool { return n > 0 && n <= maxRequests }
	isRate := func(r float64) bool { return r > 0 && r <= maxRequests }
	return []loadKey{
		{"requests", l.Requests != 0, isCount(l.Requests), count, l.Requests},
		{"total-requests", l.Total != 0, isCount(l.Total), count, l.Total},
		{"duration", l.Duration != 0, l.Duration > 0, "more than 0s", l.Duration},
		{"rate", l.Rate != 0, isRate(l.Rate), aRate, l.Rate},
		{"to", l.To != 0, isRate(l.To), aRate, l.To},
		{"stages", l.Stages != "", true, "", l.Stages},
		{"goal", l.Goal != Goal{}, true, "", l.Goal},
		{"arrivals", l.Arrivals != "", l.Arrivals == Constant || l.Arrivals == Poisson, "constant or poisson", strconv.Quote(string(l.Arrivals))},
	}
}

// trials returns the number of a part's trials. It stops counting at maxTrials+1.
func (p Part) trials() int {
	n := 1
	factors := []int{len(p.Sizes), len(p.Clients), len(p.Stacks), p.Repeats + len(p.Probes)}
	if len(p.Only) > 0 {
		factors = []int{len(p.Only), p.Repeats + len(p.Probes)}
	}
	for _, factor := range factors {
		if n *= min(factor, maxTrials+1); n > maxTrials {
			return maxTrials + 1
		}
	}
	return n
}

package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
)

// A Claim is a finding of a study, published or new. The scenario's own cells can test the claim.
type Claim struct {
	// The row of the published study that states the claim.
	Row string `json:"row,omitempty"`
	// The claim, as a clause.
	Says string `json:"says" jsonschema:"required"`
	// The published study's own evidence against the claim, as a clause.
	But string `json:"but,omitempty"`
	// The part whose cells test the claim.
	Part string `json:"part" jsonschema:"required"`
	// An expression over figures of the part's cells, such as ratio("mean", "rest", "tcp", 64, 1).
	// It is evaluated for each repeat. Its value is one positive number.
	Find string `json:"find" jsonschema:"required"`
	// The claimed value of the expression: a number, or an expression over the published figures,
	// such as cited("latency", "rest", "mean", 64, 1). A value below 1 is an upper limit, a value
	// above 1 is a lower limit. If neither claimed nor another key gives the value, the claim is
	// that the expression is above 1.
	Claimed Quoted `json:"claimed,omitempty"`
	// The value of claimed. Without claimed, it is the claimed number itself.
	Ratio float64 `json:"ratio,omitempty" jsonschema:"exclusiveMinimum=0"`
	// The least value of the expression that agrees with the claim.
	AtLeast float64 `json:"at-least,omitempty" jsonschema:"exclusiveMinimum=0"`
	// The greatest value of the expression that agrees with the claim.
	AtMost float64 `json:"at-most,omitempty" jsonschema:"exclusiveMinimum=0"`
	// Who says so. A claim with a row, in a scenario with published figures, is published unless
	// this key says otherwise.
	Basis Basis `json:"basis,omitempty" jsonschema:"enum=published,enum=inferred,enum=own bounds,enum=own"`
	// What the measurement must be like to test the claim. Otherwise the claim is not put to the
	// test.
	Needs Precondition `json:"needs,omitzero"`
}

// UnmarshalJSON reads a claim from a manifest. Old manifests have claims without an expression, which
// compare a figure of two variants, and claims whose expression is about a variant called it.
func (c *Claim) UnmarshalJSON(data []byte) error {
	type plain Claim
	var written struct {
		plain
		Of, Against, Figure, Below, Effect string
		Factors                            []struct{ Stack string }
	}
	if err := json.Unmarshal(data, &written); err != nil {
		return err
	}
	*c = Claim(written.plain)
	if written.Effect != "" && len(written.Factors) > 0 {
		of := func(variant string) string {
			return theVariant().ReplaceAllLiteralString(c.Find, strconv.Quote(variant))
		}
		c.Find = "(" + of(written.Effect) + ") / (" + of(written.Factors[0].Stack) + ")"
		c.Needs.Find = theVariant().ReplaceAllLiteralString(c.Needs.Find, strconv.Quote(written.Effect))
	}
	if c.Find != "" || written.Figure == "" {
		return nil
	}
	ratio := fmt.Sprintf("ratio(%q, %q, %q)", written.Figure, written.Of, written.Against)
	switch c.Find = ratio; {
	case written.Below != "":
		c.Find = fmt.Sprintf("part(%q).%s / %s", written.Below, ratio, ratio)
	case c.Ratio == 0: // old claims without a ratio claimed a value below 1
		c.Find = "1 / " + ratio
	}
	return nil
}

// theVariant matches the variable of an old claim about a cause.
var theVariant = pattern.Lazy(`\bit\b`)

// A Basis says whether a study published a claim and the claimed value.
type Basis string

// The bases of claims.
const (
	BasisPublished Basis = "published"  // a study states the claim and its value
	BasisInferred  Basis = "inferred"   // the value follows from the study's text or figures
	BasisOwnBounds Basis = "own bounds" // a study states the claim, and wirelab chose the bounds
	BasisOwn       Basis = "own"        // wirelab's own claim
)

// BasisIn returns the basis of the claim in a scenario. published is the scenario's source of
// published figures.
func (c *Claim) BasisIn(published string) Basis {
	if c.Row == "" || published == "" {
		return BasisOwn
	}
	return cmp.Or(c.Basis, BasisPublished)
}

// IsOwn reports whether wirelab states the claim itself.
func (b Basis) IsOwn() bool { return b == BasisOwn }

// A Precondition says what a measurement must be like to test a claim. Without an expression,
// nothing can test the claim.
type Precondition struct {
	// The condition, as a noun with its description.
	Says string `json:"says" jsonschema:"required"`
	// An expression like the claim's. It is evaluated for each repeat; the median must lie within
	// the bounds.
	Find string `json:"find,omitempty"`
	// The least value of the expression.
	AtLeast float64 `json:"at-least,omitempty" jsonschema:"exclusiveMinimum=0"`
	// The greatest value of the expression.
	AtMost float64 `json:"at-most,omitempty" jsonschema:"exclusiveMinimum=0"`
}

// A Quoted is a number, or an expression over published figures.
type Quoted string

// UnmarshalText accepts any text, because the expression is checked later.
func (q *Quoted) UnmarshalText(text []byte) error {
	*q = Quoted(text)
	return nil
}

// Needs returns the figures that test a claim. The scenario may lack cells of some figures, for
// example if --quick removed sizes or clients.
func (s *Scenario) Needs(c *Claim) ([]claim.Need, error) {
	if _, err := s.partOf(c.Part); err != nil {
		return nil, err
	}
	all, err := s.needsOf(c.Find, c.Part)
	if err != nil || c.Needs.Find == "" {
		return all, err
	}
	more, err := s.needsOf(c.Needs.Find, c.Part)
	if err != nil {
		return nil, fmt.Errorf("needs: %w", err)
	}
	for _, need := range more {
		all = lists.AppendNew(all, need)
	}
	return all, nil
}

// needsOf returns the figures of an expression over the cells of a part.
func (s *Scenario) needsOf(find, part string) ([]claim.Need, error) {
	expression, err := claim.Parse(find)
	if err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	shape := &shape{scenario: s}
	needs, err := expression.Needs(part, shape)
	if err := cmp.Or(shape.err, err); err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	var all []claim.Need
	for _, need := range needs {
		need.Cell = shape.resolve(need.Cell)
		all = lists.AppendNew(all, need)
	}
	return all, nil
}

func (s *Scenario) partOf(name string) (*Part, error) {
	i := slices.Index(s.partNames(), name)
	if i < 0 {
		return nil, fmt.Errorf("a claim names the unknown part %q: %s", name, spelling.Suggest(name, s.partNames()))
	}
	return &s.Parts[i], nil
}

// A shape provides the sizes and clients of a scenario to an expression, without figures.
type shape struct {
	scenario *Scenario
	err      error // the first error
}

func (s *shape) part(of claim.Cell) (*Part, Variant) {
	part, err := s.scenario.partOf(of.Part)
	if err != nil {
		s.err = cmp.Or(s.err, err)
		return nil, Variant{}
	}
	all := slices.Concat(part.Stacks, part.Yardsticks)
	names := lists.Map(all, Variant.String)
	i := FindVariant(names, of.Variant)
	if i < 0 {
		s.err = cmp.Or(s.err, fmt.Errorf("part %s does not measure %s; %s", of.Part, of.Variant, spelling.Suggest(of.Variant, names)))
		return nil, Variant{}
	}
	return part, all[i]
}

// Figure checks that the figure and the cell exist.
func (s *shape) Figure(name string, of claim.Cell) float64 {
	part, _ := s.part(of)
	switch {
	case claim.FigureDescriptions[name] == "":
		s.err = cmp.Or(s.err, fmt.Errorf("figure %q: %s", name, spelling.Suggest(name, claim.FigureNames())))
	case part == nil:
	case part.Profile != "":
		s.err = cmp.Or(s.err, fmt.Errorf("part %s is profiled and has no figures; name a part without `profile`", part.Name))
	case claim.NeedsSyscalls(name) && !slices.Contains(part.Probes, record.ProbeSyscalls):
		s.err = cmp.Or(s.err, fmt.Errorf("figure %s in part %s needs a probe: give the part `probes: [%s]`", name, part.Name, record.ProbeSyscalls))
	}
	return 1
}

// Sizes returns all sizes of the cell's part.
func (s *shape) Sizes(of claim.Cell) []int {
	part, _ := s.part(of)
	if part == nil {
		return nil
	}
	sizes := lists.Map(part.Sizes, func(size Payload) int { return int(size.Request) })
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// Clients returns all numbers of clients of the cell's part.
func (s *shape) Clients(of claim.Cell) []int {
	part, _ := s.part(of)
	if part == nil {
		return nil
	}
	return slices.Sorted(slices.Values(part.Clients))
}

// resolve replaces Least by the part's smallest size or number of clients. It replaces the
// variant's name by the spelling in the part.
func (s *shape) resolve(of claim.Cell) claim.Cell {
	part, variant := s.part(of)
	if part == nil {
		return of
	}
	of.Variant = variant.String()
	if of.Bytes == claim.Least {
		of.Bytes = s.Sizes(of)[0]
	}
	if of.Clients == claim.Least {
		of.Clients = slices.Min(part.Clients)
	}
	return of
}

// FindVariant returns the index of the variant with this name, or -1. The name's options may be in
// any order. In a part that uses TLS throughout, the name need not contain tls=on.
func FindVariant(names []string, wanted string) int {
	v, err := ParseVariant(wanted)
	if err != nil {
		return -1
	}
	if i := slices.Index(names, v.String()); i >= 0 {
		return i
	}
	return slices.IndexFunc(names, func(name string) bool {
		secured, err := ParseVariant(name)
		if err != nil {
			return false
		}
		secured.Options = slices.DeleteFunc(secured.Options, func(set Setting) bool { return set == Setting{"tls", "on"} })
		return secured.String() == v.String()
	})
}

func (s *Scenario) isAnswered(c *Claim, chosen map[string]bool) bool {
	needs, err := s.Needs(c)
	return err == nil && !slices.ContainsFunc(needs, func(n claim.Need) bool { return !chosen[n.Cell.Part] })
}

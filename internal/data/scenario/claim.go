package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
)

// A Claim is a published or new finding of a study, in a form that the scenario's own
// cells can answer.
type Claim struct {
	// The row of a published study that says so.
	Row string `json:"row,omitempty"`
	// The claim, as a clause.
	Says string `json:"says" jsonschema:"required"`
	// The study's own evidence against it, as a clause.
	But string `json:"but,omitempty"`
	// The part whose cells answer it.
	Part string `json:"part" jsonschema:"required"`
	// An expression over figures of the part's cells, evaluated for each repeat, such as
	// ratio("mean", "rest", "tcp", 64, 1). Its value is one positive number.
	Find string `json:"find" jsonschema:"required"`
	// The claimed value of the expression: a number, or an expression over the published
	// figures, such as cited("latency", "rest", "mean", 64, 1). A value below 1 claims at
	// most that value, a value above 1 at least that value. If left out, and nothing else
	// gives the claimed value, the claim is that the expression is above 1.
	Claimed Quoted `json:"claimed,omitempty"`
	// The value of claimed; if given without claimed, the claimed number.
	Ratio float64 `json:"ratio,omitempty" jsonschema:"exclusiveMinimum=0"`
	// The least claimed value of the expression, if a smaller one refutes the claim.
	AtLeast float64 `json:"at-least,omitempty" jsonschema:"exclusiveMinimum=0"`
	// The most, likewise.
	AtMost float64 `json:"at-most,omitempty" jsonschema:"exclusiveMinimum=0"`
	// For a claim about a cause: the variant that shows the effect. The expression then names
	// the variant as it, and the claim compares the expression's value for this variant with
	// its value for the variant whose first factor is changed, as a ratio.
	Effect Variant `json:"effect,omitzero"`
	// The possible causes, each with the variant that has it changed. The first is the
	// claimed one.
	Factors []Factor `json:"factors,omitempty"`
}

// UnmarshalJSON reads a claim as a manifest has it, also from before claims had an
// expression: they were about a figure of two variants.
func (c *Claim) UnmarshalJSON(data []byte) error {
	type plain Claim
	var written struct {
		plain
		Of, Against, Figure, Below string
	}
	if err := json.Unmarshal(data, &written); err != nil {
		return err
	}
	*c = Claim(written.plain)
	if c.Find != "" || written.Figure == "" {
		return nil
	}
	ratio := fmt.Sprintf("ratio(%q, %q, %q)", written.Figure, written.Of, written.Against)
	switch c.Find = ratio; {
	case written.Below != "":
		c.Find = fmt.Sprintf("part(%q).%s / %s", written.Below, ratio, ratio)
	case c.Ratio == 0: // it was then claimed to be below 1
		c.Find = "1 / " + ratio
	}
	return nil
}

// A Factor is a possible cause of an effect.
type Factor struct {
	// The changed thing, as a noun.
	Name string `json:"name" jsonschema:"required"`
	// The variant that has it changed, and is otherwise as the one with the effect.
	Stack Variant `json:"stack" jsonschema:"required"`
}

// A Quoted is a number or an expression over published figures.
type Quoted string

// UnmarshalText takes any text.
func (q *Quoted) UnmarshalText(text []byte) error {
	*q = Quoted(text)
	return nil
}

// IsCause reports whether the claim is about what causes an effect.
func (c *Claim) IsCause() bool { return c.Effect.Stack != "" }

// Variants returns the variants that the expression is evaluated for, the one with the effect
// first. It returns one empty name if the expression names its own.
func (c *Claim) Variants() []string {
	if !c.IsCause() {
		return []string{""}
	}
	return append([]string{c.Effect.String()}, lists.Map(c.Factors, func(f Factor) string { return f.Stack.String() })...)
}

// Needs returns the figures that answer a claim. The cells of some may not be in the
// scenario: a smaller one has fewer sizes and clients.
func (s *Scenario) Needs(c *Claim) ([]claim.Need, error) {
	expression, err := claim.Parse(c.Find, c.IsCause())
	if err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	if _, err := s.partOf(c.Part); err != nil {
		return nil, err
	}
	var all []claim.Need
	for _, variant := range c.Variants() {
		shape := &shape{scenario: s}
		needs, err := expression.Needs(c.Part, variant, shape)
		if err := cmp.Or(shape.err, err); err != nil {
			return nil, fmt.Errorf("find: %w", err)
		}
		for _, need := range needs {
			need.Cell = shape.resolve(need.Cell)
			all = lists.AppendNew(all, need)
		}
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

// A shape evaluates an expression with the sizes and clients of a scenario, without figures.
type shape struct {
	scenario *Scenario
	err      error // the first
}

// part finds the part of a cell.
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

// Sizes returns the sizes of the part.
func (s *shape) Sizes(of claim.Cell) []int {
	part, _ := s.part(of)
	if part == nil {
		return nil
	}
	sizes := lists.Map(part.Sizes, func(size Payload) int { return int(size.Request) })
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// Clients returns the numbers of clients of the part.
func (s *shape) Clients(of claim.Cell) []int {
	part, _ := s.part(of)
	if part == nil {
		return nil
	}
	return slices.Sorted(slices.Values(part.Clients))
}

// resolve replaces Least by the part's smallest size or number of clients, and the variant's name
// by the part's spelling.
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

// FindVariant finds a variant by its name, whose options may be in any order. If the
// whole part is over TLS, the name need not say so. It returns -1 if there is none.
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

// isAnswered reports whether the chosen parts measure everything that the claim needs.
func (s *Scenario) isAnswered(c *Claim, chosen map[string]bool) bool {
	needs, err := s.Needs(c)
	return err == nil && !slices.ContainsFunc(needs, func(n claim.Need) bool { return !chosen[n.Cell.Part] })
}

package report

import (
	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/scenario"
)

// ClaimObject is a claim of the scenario, and what the run says to it.
type ClaimObject struct {
	Row           string           `json:"row"`  // of a published study; may be empty
	Says          string           `json:"says"` // what is claimed
	Part          string           `json:"part"`
	Clients       int              `json:"clients"` // that it was judged with
	Of            string           `json:"of"`      // a variant
	Against       string           `json:"against"` // a variant
	Figure        scenario.Figure  `json:"figure" jsonschema:"enum=mean,enum=cpu,enum=client-cpu,enum=server-cpu,enum=throughput"`
	ClaimedRatio  Number           `json:"claimed_ratio"` // null where the claim is only that there is less
	Below         string           `json:"below"`         // the part whose ratio is to be higher; may be empty
	Outcome       analysis.Outcome `json:"outcome" jsonschema:"enum=holds,enum=holds less,enum=does not hold,enum=undecided,enum=not measured"`
	OfFigure      Number           `json:"of_figure"` // in microseconds; of throughput, a second
	AgainstFigure Number           `json:"against_figure"`
	Ratio         Number           `json:"ratio"` // of the two; with below, of the two parts' ratios
	Pairs         int              `json:"pairs"` // repeats that it rests on
	Intervals     IntervalsByField `json:"intervals"`
}

func claimObject(c *analysis.Claim) ClaimObject {
	intervals := IntervalsByField{}
	object := ClaimObject{
		Row: c.Row, Says: c.Says, Part: c.Part, Clients: c.Clients,
		Of: c.Of.String(), Against: c.Against.String(), Figure: c.Figure,
		ClaimedRatio: Number(c.Claim.Ratio), Below: c.Below, Outcome: c.Outcome,
		OfFigure: Number(none.Value), AgainstFigure: Number(none.Value), Ratio: Number(none.Value),
		Pairs: c.Pairs, Intervals: intervals,
	}
	if c.Claim.Ratio == 0 {
		object.ClaimedRatio = Number(none.Value)
	}
	if c.Pairs > 0 {
		object.Ratio = intervals.take("ratio", c.Ratio)
	}
	if c.OfFigure != nil {
		object.OfFigure = intervals.take("of_figure", *c.OfFigure)
	}
	if c.AgainstFigure != nil {
		object.AgainstFigure = intervals.take("against_figure", *c.AgainstFigure)
	}
	return object
}

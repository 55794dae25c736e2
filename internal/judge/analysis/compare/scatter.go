package compare

import (
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A scatterClass holds the claims whose figures scatter alike from repeat to repeat: long percentiles and
// counts of rare events scatter much more than means.
type scatterClass int

const (
	ofMeans scatterClass = iota
	ofCounts
	ofTails
)

// scatterClass returns the class of the claim's wildest figure.
func (c *Claim) scatterClass() scatterClass {
	class := ofMeans
	for _, f := range c.Figures {
		switch {
		case claim.NeedsP99(f.Figure) || f.Figure == "p95" || f.Figure == "p90":
			class = ofTails
		case matrix.KindOf(f.Figure) == record.Counts:
			class = max(class, ofCounts)
		}
	}
	return class
}

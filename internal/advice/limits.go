package advice

import (
	"fmt"

	"wirelab.dev/internal/analysis"
)

// limits says what an in-flight limit did, in both ways of counting.
func limits(s *analysis.Summary) []string {
	var sentences []string
	for _, l := range s.Limits {
		sentences = append(sentences, fmt.Sprintf(
			"At most %d in flight on %s (%s, %s): counted from the permit on, as the published study did, the mean is %s times that without the limit"+
				" and P99/P50 %s instead of %s; with the wait for the permit, which callers see, the mean is %s times that without,"+
				" P99/P50 is %s and P99 %s instead of %s; throughput is %s times that without.",
			l.Limit, l.Without, size(float64(l.RequestBytes)), clients(l.Clients),
			between(l.MeanServiceRatio, number), number(l.TailWithService), number(l.TailWithout),
			between(l.MeanResponseRatio, number), number(l.TailWithResponse), micros(l.P99WithUS), micros(l.P99WithoutUS),
			between(l.ThroughputRatio, number)))
	}
	if n := len(s.Limits); n > 0 {
		last := s.Limits[n-1].Clients
		sentences[n-1] += fmt.Sprintf(" By Little's law the mean that the callers of a closed loop see is their number over the throughput"+
			" (%d clients here), so a limit lowers it only as far as it raises throughput; the rest moves from the call to the wait before it.", last)
	}
	return sentences
}

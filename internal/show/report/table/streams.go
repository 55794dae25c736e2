package table

import (
	"fmt"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// streams prints the counts of held streams, and how far they differ. Remarks tell what went wrong.
func (t *loadText) streams(s *matrix.Streams) {
	if s == nil {
		return
	}
	held := units.Thousands(s.Held) + " held"
	if s.CallersPerStream > 1 {
		held += fmt.Sprintf(" with up to %d messages in flight", s.CallersPerStream)
	}
	t.fact("streams", held, fmt.Sprintf("%s messages sent, %s received, with the warm-up", units.Thousands(s.Sent), units.Thousands(s.Received)))
	if p := s.PerStream; p != nil {
		t.fact("", fmt.Sprintf("%s to %s calls on each", units.Thousands(p.Fewest), units.Thousands(p.Most)),
			fmt.Sprintf("mean %s to %s", words.Micros(p.FastestMeanUS), words.Micros(p.SlowestMeanUS)), fmt.Sprintf("slowest: stream %d", p.Slowest))
	}
}

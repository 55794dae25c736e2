package table

import (
	"fmt"

	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// DescribeBytes returns how many bytes came in and went out, or nil if that is unknown.
func DescribeBytes(c *matrix.Cell) []string {
	b := c.Bytes
	if b == nil || b.Calls == 0 {
		return nil
	}
	direction := func(way string, bytes int64) string {
		text := words.Size(float64(bytes)) + " " + way
		if c.WindowSeconds > 0 && c.Trials == 1 {
			text += fmt.Sprintf(" (%s/s)", words.Size(float64(bytes)/c.WindowSeconds))
		}
		return text
	}
	parts := []string{direction("in", b.ReceivedHeaderBytes+b.ReceivedBodyBytes), direction("out", b.SentHeaderBytes+b.SentBodyBytes)}
	if !b.KnowsHeaders() {
		parts = append(parts, "without headers")
	}
	return parts
}

// shareText returns a share in percent. It shows 100 % only for all of them.
func shareText(some, all int64) string {
	share := float64(some) / float64(max(1, all))
	if share > 0.99 {
		return words.Percent(share)
	}
	return words.Share(share)
}

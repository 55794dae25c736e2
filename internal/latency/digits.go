package latency

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// coarseDigits are those of the histograms that are sent while a load runs: they are a tenth
// as long as those of records.
const coarseDigits = 2

// Coarse is a histogram with two significant digits, of what others sent.
type Coarse struct {
	buckets *hdrhistogram.Histogram
}

// NewCoarse returns an empty one.
func NewCoarse() *Coarse {
	return &Coarse{hdrhistogram.New(lowestValue, highestValue, coarseDigits)}
}

// AddEncoded adds the durations of an HdrHistogram V2, compressed, base64, that counts from
// 1 ns with two digits. An empty text has none.
func (c *Coarse) AddEncoded(encoded string) error {
	if encoded == "" {
		return nil
	}
	other, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return fmt.Errorf("latency: decode a coarse histogram: %w", err)
	}
	if other.LowestTrackableValue() != lowestValue || other.SignificantFigures() != coarseDigits {
		return fmt.Errorf("latency: decode a coarse histogram: it counts from %d with %d digits, want from %d ns with %d",
			other.LowestTrackableValue(), other.SignificantFigures(), lowestValue, coarseDigits)
	}
	if dropped := c.buckets.Merge(other); dropped != 0 {
		return fmt.Errorf("latency: decode a coarse histogram: %d values are above 60 s", dropped)
	}
	return nil
}

// Count is how many durations it holds.
func (c *Coarse) Count() int64 { return c.buckets.TotalCount() }

// Quantile is that of all durations, to two digits: the upper end of its bucket. At 1 it is
// that of the longest. An empty histogram gives 0.
func (c *Coarse) Quantile(q float64) time.Duration {
	if q >= 1 {
		return time.Duration(c.buckets.Max())
	}
	return time.Duration(c.buckets.ValueAtPercentile(q * 100))
}

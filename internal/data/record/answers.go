package record

import (
	"cmp"
	"math/bits"
	"slices"

	"wirelab.dev/internal/base/sum"
)

// Answers counts the answers of calls that did not fail, by the size of their bodies or messages.
type Answers struct {
	// Sizes lists up to KeptSizes sizes, in ascending order.
	Sizes []SizeCount `json:"sizes,omitempty"`
	// Rounded counts the answers with other sizes. Each size is rounded down by less than an eighth.
	Rounded  []SizeCount `json:"rounded,omitempty"`
	MinBytes int64       `json:"min_bytes"`
	MaxBytes int64       `json:"max_bytes"`
}

// SizeCount counts the answers of one size.
type SizeCount struct {
	Bytes int64 `json:"bytes"`
	Count int64 `json:"count"`
}

// Plus adds the counts of s and other.
func (s SizeCount) Plus(other SizeCount) SizeCount {
	s.Count += other.Count
	return s
}

// KeptSizes is the greatest number of sizes that are counted one by one.
const KeptSizes = 32

// Plus adds the counts of a and other. Of too many sizes, it keeps the most frequent ones.
func (a Answers) Plus(other Answers) Answers {
	switch {
	case a.Count() == 0:
		return other
	case other.Count() == 0:
		return a
	}
	all := plusSizes(a.Sizes, other.Sizes)
	rounded := plusSizes(a.Rounded, other.Rounded)
	if len(all) > KeptSizes {
		slices.SortFunc(all, func(a, b SizeCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Bytes, b.Bytes))
		})
		var rare []SizeCount
		for _, s := range all[KeptSizes:] {
			rare = append(rare, SizeCount{Bytes: LowestSizeIn(SizeRange(s.Bytes)), Count: s.Count})
		}
		all, rounded = all[:KeptSizes], plusSizes(rounded, rare)
		sortSizes(all)
	}
	return Answers{Sizes: all, Rounded: rounded, MinBytes: min(a.MinBytes, other.MinBytes), MaxBytes: max(a.MaxBytes, other.MaxBytes)}
}

func plusSizes(a, b []SizeCount) []SizeCount {
	all := sum.ByKey(a, b, func(s SizeCount) int64 { return s.Bytes })
	sortSizes(all)
	return all
}

func sortSizes(all []SizeCount) {
	slices.SortFunc(all, func(a, b SizeCount) int { return cmp.Compare(a.Bytes, b.Bytes) })
}

// Count returns the number of answers.
func (a Answers) Count() (all int64) {
	for _, s := range slices.Concat(a.Sizes, a.Rounded) {
		all += s.Count
	}
	return all
}

// Median returns the median size. It is exact if no size is rounded.
func (a Answers) Median() int64 {
	all := plusSizes(a.Sizes, a.Rounded)
	left := (a.Count() + 1) / 2
	for _, s := range all {
		if left -= s.Count; left <= 0 {
			return s.Bytes
		}
	}
	return 0
}

// sizeBits is the number of leading bits that a rounded size keeps.
const sizeBits = 4

// SizeRanges is the number of ranges that SizeRange distinguishes.
const SizeRanges = (64 - sizeBits + 1) << (sizeBits - 1)

// SizeRange returns the number of the range that contains a size. All sizes in a range have the
// same rounded size.
func SizeRange(size int64) int {
	shift := max(0, bits.Len64(uint64(max(0, size)))-sizeBits)
	return shift<<(sizeBits-1) + int(max(0, size)>>shift)
}

// LowestSizeIn returns the smallest size in a range: the rounded size of all sizes in it.
func LowestSizeIn(number int) int64 {
	const half = 1 << (sizeBits - 1)
	shift := max(0, number/half-1)
	return int64(number-shift*half) << shift
}

// ConnectionCalls holds the calls of one connection that one client had to itself. After a
// connection was closed, the client's next connection counts as the same one.
type ConnectionCalls struct {
	Client   int   `json:"client"` // number of the client, from 0
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed,omitempty"`
	SumNS    int64 `json:"sum_ns"` // sum of the service times
	P25NS    int64 `json:"p25_ns"` // a quarter of the calls took at most this time
	P90NS    int64 `json:"p90_ns"`
}

// Plus adds the counts of c and other. It keeps the percentiles of c.
func (c ConnectionCalls) Plus(other ConnectionCalls) ConnectionCalls {
	c.Requests += other.Requests
	c.Failed += other.Failed
	c.SumNS += other.SumNS
	return c
}

// KeptConnections is the greatest number of connections whose calls a measurement lists. With more
// connections, it lists none.
const KeptConnections = 1024

func plusConnections(a, b []ConnectionCalls) []ConnectionCalls {
	all := sum.ByKey(a, b, func(c ConnectionCalls) int { return c.Client })
	if len(all) > KeptConnections {
		return nil
	}
	return all
}

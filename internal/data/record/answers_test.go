package record

import (
	"math"
	"testing"
)

func TestSizesAreRoundedByLessThanAnEighth(t *testing.T) {
	before := -1
	for _, size := range []int64{0, 1, 15, 16, 17, 31, 32, 812, 4096, 1 << 40, math.MaxInt64} {
		number := SizeRange(size)
		lowest := LowestSizeIn(number)
		if lowest > size || float64(size-lowest) >= float64(max(1, size))/8 || SizeRange(lowest) != number {
			t.Errorf("%d bytes are in the range %d from %d, which is in the range %d", size, number, lowest, SizeRange(lowest))
		}
		if number <= before && size > 16 && size != 17 || number >= SizeRanges {
			t.Errorf("%d bytes are in the range %d of %d, after the range %d", size, number, SizeRanges, before)
		}
		before = number
	}
}

func TestTheMostFrequentSizesAreKept(t *testing.T) {
	one := Answers{MinBytes: 100, MaxBytes: 131}
	for i := range int64(KeptSizes) {
		one.Sizes = append(one.Sizes, SizeCount{Bytes: 100 + i, Count: 1})
	}
	both := one.Plus(Answers{Sizes: []SizeCount{{21, 500}}, MinBytes: 21, MaxBytes: 21})
	if both.Count() != 500+KeptSizes || len(both.Sizes) != KeptSizes || both.Sizes[0] != (SizeCount{21, 500}) || both.MinBytes != 21 || both.MaxBytes != 131 {
		t.Errorf("the sum is %+v", both)
	}
	if len(both.Rounded) != 1 || both.Rounded[0] != (SizeCount{Bytes: 128, Count: 1}) {
		t.Errorf("rounded are %v: want the largest of the rare sizes, 131, as 128", both.Rounded)
	}
	if got := both.Median(); got != 21 {
		t.Errorf("the median is %d", got)
	}
	if got := one.Plus(Answers{}); got.MinBytes != 100 {
		t.Errorf("no answers changed the smallest size to %d", got.MinBytes)
	}
}

package latency

import (
	"math/bits"
	"time"
)

// The bucket layout is HdrHistogram's for 1 ns to 60 s with three significant
// digits. Each value below 2,048 has its own bucket; above, each power of two
// is divided into 1,024 buckets.
const (
	lowestValue       = 1
	highestValue      = int64(60 * time.Second)
	significantDigits = 3

	halfMagnitude = 10 // 1,024 buckets in each power of two
	halfCount     = 1 << halfMagnitude
	linearMask    = 2*halfCount - 1
)

// bucketCount is the number of buckets; the last power of two is complete.
var bucketCount = (bucketOf(highestValue)/halfCount + 1) * halfCount

// bucketOf returns the index of the bucket that counts a value of 0 or more.
func bucketOf(value int64) int {
	shift := bits.Len64(uint64(value)|linearMask) - (halfMagnitude + 1)
	return shift<<halfMagnitude + int(value>>shift)
}

// lowestIn returns the lowest value of a bucket.
func lowestIn(bucket int) int64 {
	shift := bucket>>halfMagnitude - 1
	if shift <= 0 {
		return int64(bucket)
	}
	return int64(bucket-shift<<halfMagnitude) << shift
}

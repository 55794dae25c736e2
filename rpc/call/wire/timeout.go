package wire

import (
	"fmt"
	"strconv"
	"time"
)

// timeoutUnits are the units of grpc-timeout, finest first.
var timeoutUnits = [...]struct {
	unit   time.Duration
	letter byte
}{
	{time.Nanosecond, 'n'},
	{time.Microsecond, 'u'},
	{time.Millisecond, 'm'},
	{time.Second, 'S'},
	{time.Minute, 'M'},
	{time.Hour, 'H'},
}

// maxTimeoutValue has the eight digits that the specification allows.
const maxTimeoutValue = 99999999

// EncodeTimeout formats d in the finest unit that fits, rounded up.
func EncodeTimeout(d time.Duration) string {
	if d <= 0 {
		return "0n"
	}
	var digits [10]byte
	for _, u := range timeoutUnits {
		v := d / u.unit
		if d%u.unit > 0 {
			v++
		}
		if v <= maxTimeoutValue {
			return string(append(strconv.AppendInt(digits[:0], int64(v), 10), u.letter))
		}
	}
	return "99999999H"
}

// DecodeTimeout parses the value of grpc-timeout. If it is longer than the longest Duration,
// DecodeTimeout returns that.
func DecodeTimeout(s string) (time.Duration, error) {
	if len(s) < 2 || len(s) > 9 {
		return 0, fmt.Errorf("grpc-timeout %q: want 1 to 8 digits and a unit", s)
	}
	v, err := strconv.ParseUint(s[:len(s)-1], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("grpc-timeout %q is not a number and a unit", s)
	}
	for _, u := range timeoutUnits {
		if u.letter != s[len(s)-1] {
			continue
		}
		if v > uint64(1<<63-1)/uint64(u.unit) {
			return 1<<63 - 1, nil
		}
		return time.Duration(v) * u.unit, nil
	}
	return 0, fmt.Errorf("grpc-timeout %q: unknown unit, want one of H, M, S, m, u, n", s)
}

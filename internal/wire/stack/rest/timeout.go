package rest

import (
	"fmt"
	"strconv"
	"time"
)

// timeoutHeader carries how long the caller will still wait, in the format of
// gRPC's header of that name: up to eight digits and a unit.
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
const timeoutHeader = "Grpc-Timeout"

const maxTimeoutDigits = 8

var timeoutUnits = []struct {
	letter byte
	length time.Duration
}{
	{'n', time.Nanosecond},
	{'u', time.Microsecond},
	{'m', time.Millisecond},
	{'S', time.Second},
	{'M', time.Minute},
	{'H', time.Hour},
}

// encodeTimeout uses the finest unit that fits, and rounds up: the server must
// not give up before the client does.
func encodeTimeout(left time.Duration) string {
	const limit = 100_000_000 // the first number that has nine digits
	for _, unit := range timeoutUnits {
		count := left / unit.length
		if left%unit.length > 0 {
			count++
		}
		if count < limit {
			return strconv.FormatInt(int64(count), 10) + string(unit.letter)
		}
	}
	panic("rest: no time.Duration is 100 million hours long")
}

func decodeTimeout(text string) (time.Duration, error) {
	digits := len(text) - 1
	if digits < 1 || digits > maxTimeoutDigits {
		return 0, fmt.Errorf("%s: %q is not one to eight digits and a unit, as in 250m", timeoutHeader, text)
	}
	count, err := strconv.ParseUint(text[:digits], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not one to eight digits and a unit, as in 250m", timeoutHeader, text)
	}
	for _, unit := range timeoutUnits {
		if unit.letter != text[digits] {
			continue
		}
		const longest = time.Duration(1<<63 - 1)
		if time.Duration(count) > longest/unit.length {
			return longest, nil
		}
		return time.Duration(count) * unit.length, nil
	}
	return 0, fmt.Errorf("%s: %q ends in none of the units n, u, m, S, M, H", timeoutHeader, text)
}

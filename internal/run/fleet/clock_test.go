package fleet

import (
	"math/rand/v2"
	"testing"
)

// exchangesWith makes exchanges with a clock that is ahead by so much, over a way that takes
// each message at least so long, and sometimes much longer.
func exchangesWith(random *rand.Rand, ahead, shortest int64) []clockExchange {
	var made []clockExchange
	now := int64(1_000_000_000)
	for range exchangesPerComparison {
		way := func() int64 { return shortest + int64(random.ExpFloat64()*float64(shortest)) }
		e := clockExchange{sentNS: now, wallNS: now}
		now += way()
		e.there.CameNS = now + ahead
		now += 5_000
		e.there.WentNS, e.there.WallNS = now+ahead, now+30_000_000_000
		now += way()
		e.backNS, e.wallNS = now, now
		made = append(made, e)
	}
	return made
}

// Whatever the network does, the true offset is within the reported error.
func TestOffsetIsWithinItsError(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		ahead := int64(random.Uint64()>>4) - 1<<59 // machines that started years apart
		found := compareExchanges(exchangesWith(random, ahead, 20_000+random.Int64N(1_000_000)))
		if off := abs(found.offsetNS - ahead); off > found.errorNS {
			t.Fatalf("offset %d, found %d ± %d", ahead, found.offsetNS, found.errorNS)
		}
	}
}

// The shortest exchange counts: one that lost its way says nothing.
func TestTheShortestExchangeCounts(t *testing.T) {
	made := []clockExchange{
		{sentNS: 0, backNS: 100_000_000, there: clockReply{CameNS: 99_000_000, WentNS: 99_000_001}},
		{sentNS: 200_000_000, backNS: 200_100_000, there: clockReply{CameNS: 200_050_000, WentNS: 200_050_000}},
	}
	if found := compareExchanges(made); found.offsetNS != 0 || found.errorNS > 50_001 {
		t.Errorf("offset %d ± %d, want 0 ± 50 µs", found.offsetNS, found.errorNS)
	}
}

func TestInstantsThatCannotBe(t *testing.T) {
	for _, data := range []string{"", "{", `{"came_ns":2,"went_ns":1}`, `{"came_ns":"x"}`} {
		if there, err := parseInstants([]byte(data)); err == nil {
			t.Errorf("%q is %+v", data, there)
		}
	}
}

func TestDriftIsPartOfTheError(t *testing.T) {
	c := recordedClock(clockComparison{offsetNS: 1000, errorNS: 50}, clockComparison{offsetNS: 1300, errorNS: 40, wallNS: -7})
	if c.OffsetNS != 1300 || c.DriftNS != 300 || c.ErrorNS != 350 || c.WallNS != -7 {
		t.Errorf("%+v", c)
	}
}

package analysis

import (
	"math"
	"reflect"
	"slices"

	"wirelab.dev/internal/data/record"
)

// foreignPrograms are those that measured what wirelab only read.
func foreignPrograms(records []*record.Record) []string {
	var programs []string
	for _, r := range records {
		if r.Foreign != nil && !slices.Contains(programs, r.Foreign.Program()) {
			programs = append(programs, r.Foreign.Program())
		}
	}
	return programs
}

// knowsResponse reports whether a record tells how long its calls took from when they were
// due. Other programs time them from their actual send, which is the same only where no rate
// was to be held.
func knowsResponse(r *record.Record) bool {
	return r.Foreign == nil || r.Response != nil || r.Cell.Load.Model == "closed"
}

func unknownLatencies() *Latencies {
	l := &Latencies{}
	for _, field := range reflect.ValueOf(l).Elem().Fields() {
		if figure, is := field.Addr().Interface().(*Figure); is {
			figure.Value = math.NaN()
		}
	}
	return l
}

// warmUp is in milliseconds; unknown of other programs' files, which do not tell it apart.
func warmUp(t trial) float64 {
	if t.Foreign != nil {
		return math.NaN()
	}
	return float64(t.WarmUp.TookNS) / 1e6
}

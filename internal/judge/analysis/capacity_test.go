package analysis

import (
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

func TestTheCapacityIsOfTheTrialsBeyondIt(t *testing.T) {
	var records []*record.Record
	for repeat := 1; repeat <= 3; repeat++ {
		r := truth{variant: "tcp", bytes: 64, clients: 1, mean: time.Millisecond}.record(t, 1)
		r.Repeat = repeat
		r.Checks = []record.Check{{Name: "overload", Level: record.Invalid, Unit: "rps", Figure: new(990 + 5*float64(repeat)), Limit: new(1040.0)}}
		records = append(records, r)
	}
	if c := summarize(t, records).Cells[0]; c.IsValid() || c.Capacity == nil || c.Capacity.Value != 1000 {
		t.Errorf("beyond a capacity of 1,000/s: %+v, valid: %v", c.Capacity, c.IsValid())
	}
	for _, r := range records {
		r.Checks[0].Level = record.OK
	}
	if c := summarize(t, records).Cells[0]; c.Capacity != nil {
		t.Errorf("within capacity, and %+v", c.Capacity)
	}
}

package lab

import (
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
)

// Requests in refused early data are sent again as those of --retry are.
func TestRefusedEarlyDataCountsAsSentAgain(t *testing.T) {
	r, c := &record.Record{}, &worker.ClientResult{}
	c.Resent, c.Connections.Window = 2, conn.Counts{EarlyRefused: 3, SentAgain: 3}
	if fillMeasurement(r, c); r.Resent != 5 {
		t.Errorf("%d were sent again, want 5", r.Resent)
	}
}

package h2

import (
	"testing"
	"time"
)

// The first frame of a connection brings all time since the process began.
func TestOldProcessesEarnCreditToo(t *testing.T) {
	for _, age := range []time.Duration{time.Minute, 24 * time.Hour, 120 * 24 * time.Hour, 100 * 365 * 24 * time.Hour} {
		var b budget
		if b.refill(age, 1000); b.credit != budgetMax {
			t.Errorf("after %v the credit is %d, want %d", age, b.credit, budgetMax)
		}
	}
}

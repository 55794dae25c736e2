package lifetime

import (
	"testing"
	"time"
)

// TestAgeJitter checks that MaxConnectionAge is moved by up to a tenth, both ways.
func TestAgeJitter(t *testing.T) {
	least, most := Forever, time.Duration(0)
	for range 1000 {
		age := JitterAge(time.Hour)
		least, most = min(least, age), max(most, age)
	}
	if least < 54*time.Minute || least > 57*time.Minute || most > 66*time.Minute || most < 63*time.Minute {
		t.Errorf("an hour became %v to %v", least, most)
	}
	if JitterAge(Forever) != Forever || JitterAge(0) != 0 {
		t.Error("no age, and age 0, must stay")
	}
}

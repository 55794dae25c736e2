package matrix

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
)

func TestFailuresOfOneCodeAreToldApartByClass(t *testing.T) {
	all := survivalOf([]Trial{
		{Record: &record.Record{Errors: []record.ErrorCount{{Class: "refused", Code: "Unavailable", Count: 1, Example: "a"}, {Class: "reset", Code: "Unavailable", Count: 2, Example: "b"}}}},
		{Record: &record.Record{Errors: []record.ErrorCount{{Class: "refused", Code: "Unavailable", Count: 4, Example: "c"}}}},
	}).Failures
	want := []record.ErrorCount{{Class: "refused", Code: "Unavailable", Count: 5, Example: "a"}, {Class: "reset", Code: "Unavailable", Count: 2, Example: "b"}}
	if !slices.Equal(all, want) {
		t.Errorf("%+v", all)
	}
}

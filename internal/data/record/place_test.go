package record_test

import (
	"slices"
	"strconv"
	"testing"

	"wirelab.dev/internal/data/record"
)

func TestAPayloadIsWrittenOnceOrTwice(t *testing.T) {
	for want, p := range map[string]record.Payload{
		"64": {RequestBytes: 64, ResponseBytes: 64}, "64 to 4096": {RequestBytes: 64, ResponseBytes: 4096}, "0": {},
	} {
		if got := p.Text(strconv.Itoa, " to "); got != want {
			t.Errorf("%+v is written %q, want %q", p, got, want)
		}
	}
	if got := (record.Payload{RequestBytes: 64, ResponseBytes: 4096}).Key(); got != "64B-4KiB" {
		t.Errorf("the key is %q", got)
	}
}

func TestPlacesAreOrderedBySizeAndThenByClients(t *testing.T) {
	at := func(request, response, clients int) record.Place {
		return record.Place{Payload: record.Payload{RequestBytes: request, ResponseBytes: response}, Clients: clients}
	}
	want := []record.Place{at(1, 1, 9), at(1, 2, 1), at(1, 2, 5), at(2, 1, 1)}
	got := []record.Place{want[3], want[1], want[0], want[2]}
	if slices.SortFunc(got, record.Place.Compare); !slices.Equal(got, want) {
		t.Errorf("ordered: %+v", got)
	}
}

func TestLevelsAreOrderedByGravity(t *testing.T) {
	levels := []record.Level{record.Unknown, record.OK, record.Warning, record.Invalid}
	for i, l := range levels {
		if l.Severity() != i {
			t.Errorf("%s has gravity %d, want %d", l, l.Severity(), i)
		}
	}
}

package held

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/service"
)

func TestSequence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		numbers []int64
		want    record.Sequence
	}{
		"any beginning":        {[]int64{7, 8, 9}, record.Sequence{}},
		"missing":              {[]int64{1, 2, 5, 6, 8}, record.Sequence{Missing: 3, Streams: 1}},
		"duplicate":            {[]int64{1, 2, 2, 1, 3}, record.Sequence{Duplicate: 2}},
		"reordered":            {[]int64{1, 3, 2, 4}, record.Sequence{Reordered: 1}},
		"reordered in a hole":  {[]int64{1, 10, 5, 5, 2, 9}, record.Sequence{Missing: 5, Reordered: 3, Duplicate: 1, Streams: 1}},
		"before the beginning": {[]int64{5, 4, 6}, record.Sequence{Duplicate: 1}},
		"a new beginning":      {[]int64{1, math.MaxInt64 - 1, math.MaxInt64}, record.Sequence{}},
		"far apart":            {[]int64{math.MinInt64, 5, 6}, record.Sequence{}},
	} {
		var s sequence
		for _, n := range c.numbers {
			s.observe(n)
		}
		if s.Sequence != c.want {
			t.Errorf("%s: %+v, want %+v", name, s.Sequence, c.want)
		}
		s.restart()
		s.observe(1000)
		if s.Sequence != c.want {
			t.Errorf("%s: the first number of a new pipe counts: %+v", name, s.Sequence)
		}
	}
}

// Whatever the order and the loss: each number is counted once, and what never came is missing.
func FuzzSequence(f *testing.F) {
	f.Add(uint64(1), uint8(100), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, count, drop uint8) {
		random := rand.New(rand.NewPCG(seed, 0))
		var numbers []int64
		for n := range int64(count) {
			if n == 0 || random.IntN(256) >= int(drop) {
				numbers = append(numbers, n)
			}
		}
		if len(numbers) == 0 {
			return
		}
		sent := slices.Clone(numbers)
		for range len(sent) / 4 {
			i := 1 + random.IntN(len(sent)-1)
			j := 1 + random.IntN(len(sent)-1)
			sent[i], sent[j] = sent[j], sent[i]
		}
		var s sequence
		for _, n := range sent {
			s.observe(n)
		}
		if want := slices.Max(sent) + 1 - int64(len(numbers)); s.Missing != want || s.Duplicate != 0 {
			t.Fatalf("%+v of %v: want %d missing", s.Sequence, sent, want)
		}
	})
}

func TestInstants(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 5, 4, 3, 2, 1, 500_000_000, time.UTC)
	for _, text := range []string{"2026-05-04T03:02:01.5Z", "2026-05-04T05:02:01.5+02:00", "1777863721.5", "1777863721500", "1777863721500000", "1777863721500000000", "1777863721500.0"} {
		if got, err := parseInstant(text); err != nil || got.Sub(want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yesterday", "0", "-5", "NaN", "Inf"} {
		if got, err := parseInstant(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// An instant in the future is of no use: the clocks differ.
func TestFieldsOfAMessage(t *testing.T) {
	t.Parallel()
	f, err := parseFields(&service.Definition{Wire: service.WebSocket, Holding: &service.Holding{Match: "json(.id)", SentAt: "json(.at)", Sequence: "json(.n)"}})
	if err != nil {
		t.Fatal(err)
	}
	r := f.newReader()
	found := r.read([]byte(`{"id": 7, "at": "2020-01-01T00:00:00Z", "n": "12"}`))
	if found.unusable || found.key != "7" || *found.number != 12 || *found.sinceNS < int64(365*24*time.Hour) {
		t.Errorf("%+v", found)
	}
	for _, message := range []string{`{"at": 1, "n": 1}`, `{"id": 1, "at": "2999-01-01T00:00:00Z", "n": 1}`, `{"id": 1, "at": 1, "n": 1.5}`, `{"id": 1, "n": 1}`, "", "x"} {
		if !r.read([]byte(message)).unusable {
			t.Errorf("%q is usable", message)
		}
	}
	if _, err := r.keyOfSent([]byte(`{"n": 1}`)); err == nil {
		t.Error("a message without a key can be sent")
	}
}

func FuzzInstant(f *testing.F) {
	for _, text := range []string{"1777863721.5", "2026-05-04T03:02:01.5Z", "-1", "1e400"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := parseInstant(text); err == nil && at.IsZero() {
			t.Fatalf("%q is the instant zero", text)
		}
	})
}

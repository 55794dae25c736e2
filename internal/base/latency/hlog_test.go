package latency

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestLogIsReadByTheLibrary(t *testing.T) {
	start := time.Date(2026, 11, 21, 5, 0, 0, 400e6, time.UTC)
	var text bytes.Buffer
	log, err := NewLogWriter(&text, start)
	if err != nil {
		t.Fatal(err)
	}
	var want []*Histogram
	for i, tag := range []string{"tcp/64B/c=1", "", "grpc/64B/c=1"} {
		histogram := sampleHistogram(uint64(i), 100*(i+1))
		want = append(want, histogram)
		if err := log.Write(Interval{
			Tag:       tag,
			Start:     start.Add(time.Duration(i) * time.Second),
			Length:    900 * time.Millisecond,
			Histogram: histogram,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(text.String(), "Tag=grpc/64B/c=1,2.400000,0.900000,") {
		t.Errorf("no interval 2.4 s after the log's second, 0.9 s long:\n%.400s", text.String())
	}

	reader := hdrhistogram.NewHistogramLogReader(&text)
	for i, histogram := range want {
		read, err := reader.NextIntervalHistogram()
		if err != nil || read == nil {
			t.Fatalf("interval %d: %v %v", i, read, err)
		}
		if !read.Equals(histogram.buckets) {
			t.Errorf("interval %d came back different", i)
		}
		if begin := start.Add(time.Duration(i) * time.Second).UnixMilli(); read.StartTimeMs() != begin {
			t.Errorf("interval %d starts at %d ms, want %d", i, read.StartTimeMs(), begin)
		}
	}
}

func TestLogRefusesATagThatBreaksTheLine(t *testing.T) {
	log, err := NewLogWriter(&bytes.Buffer{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"a,b", "a b", "a\nb", ","} {
		if err := log.Write(Interval{Tag: tag, Histogram: NewHistogram()}); err == nil {
			t.Errorf("the tag %q was accepted", tag)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestLogReportsAFailedWrite(t *testing.T) {
	if _, err := NewLogWriter(brokenPipe{}, time.Now()); err == nil {
		t.Error("a head that was not written raised no error")
	}
}

package export

import (
	"errors"
	"strings"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

func TestSeriesHasARowPerSecond(t *testing.T) {
	times := latency.NewCoarseHistogram()
	times.Record(10e6, 98) // ns
	times.Record(50e6, 2)
	text, err := times.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r := &record.Record{Repeat: 2, Cell: record.Cell{Place: record.Place{Clients: 10}}, Seconds: []record.Second{
		{StartNS: -250e6, TookNS: 1e9, Ended: 100, Failed: 3, Histogram: text},
		{StartNS: 750e6, TookNS: 500e6},
	}}
	var out strings.Builder
	if err := WriteSeries(&out, []*record.Record{{}, r}); err != nil {
		t.Fatal(err)
	}
	want := strings.Join(seriesTitles, ",") + "\n2,10,-0.250,1.000,100,3,100.0,10.7931,10.0270,10.0270,50.0695,50.0695\n2,10,0.750,0.500,0,0,0.0,,,,,\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	r.Seconds[0].Histogram = "nonsense"
	if err := WriteSeries(&out, []*record.Record{r}); err == nil || !strings.Contains(err.Error(), "second at -250ms") {
		t.Errorf("of a damaged histogram: %v", err)
	}
	if err := WriteSeries(&out, []*record.Record{{}}); !errors.Is(err, errNoSeries) {
		t.Errorf("of a run without seconds: %v", err)
	}
}

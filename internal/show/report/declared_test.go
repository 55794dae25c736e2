package report

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis/matrix"
)

// The columns of CSV follow from tags, which are easily lost.
func TestColumnsOfCSV(t *testing.T) {
	var titles strings.Builder
	for _, c := range csvColumns() {
		titles.WriteString(c.title + "\n")
	}
	checkGolden(t, "testdata/csv-columns.txt", []byte(titles.String()))
}

func TestLabelsOfQuantiles(t *testing.T) {
	if len(matrix.Quantiles) == 0 {
		t.Fatal("there are none")
	}
	for _, q := range matrix.Quantiles {
		if want := "P" + strconv.FormatFloat(100*q.At, 'g', 6, 64); q.Tag.Get("label") != want {
			t.Errorf("%s is %q, want %q", q.Name, q.Tag.Get("label"), want)
		}
	}
}

// A cell without any measurement has figures of zero, and none is shown.
func TestCellWithoutFigures(t *testing.T) {
	data, err := encode(&Cell{}, forPrograms)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"throughput_rps":null`, `"service_us":{"mean":null`, `"handshake_us":{"mean":null`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("no %s in %s", want, data)
		}
	}
}

package latency

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// agentRow is a row of a merged file, as other programs read it.
type agentRow struct {
	Worker   int32  `parquet:"worker"`
	Sequence int32  `parquet:"seq"`
	Start    int64  `parquet:"start_ns"`
	Wait     int64  `parquet:"wait_ns"`
	Service  int64  `parquet:"service_ns"`
	Response int64  `parquet:"response_ns"`
	Failed   bool   `parquet:"failed"`
	Agent    string `parquet:"agent"`
}

// Every row of three agents is in the merged file, in the order of time. The reader is another's.
func TestMergeSamples(t *testing.T) {
	defer func(before int) { sortRows = before }(sortRows)
	for _, sortRows = range []int{1000, 1 << 19} {
		directory := t.TempDir()
		var from []SampleFile
		var want []agentRow
		for agent, shift := range []int64{0, 137, -400_000} {
			one := SampleFile{Path: filepath.Join(directory, fmt.Sprint(agent)), Agent: fmt.Sprintf("agent-%d", agent), ShiftNS: shift}
			var logs []*SampleLog
			for worker, samples := range []int{5_000 * agent, 33, 0, 2_500} {
				log, kept := sampleLog(int32(worker), samples, 0)
				defer log.Close()
				logs = append(logs, log)
				for i, s := range kept {
					want = append(want, agentRow{int32(worker), int32(i), s.Start + shift, s.Wait, s.Service, s.Response, s.Failed, one.Agent})
				}
				one.MaxRows += int64(samples)
			}
			if err := WriteParquet(one.Path, logs); err != nil {
				t.Fatal(err)
			}
			from = append(from, one)
		}
		slices.SortFunc(want, func(a, b agentRow) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Sequence, b.Sequence))
		})
		path := filepath.Join(directory, "all.parquet")
		if err := MergeSamples(path, from); err != nil {
			t.Fatal(err)
		}
		got, err := parquet.ReadFile[agentRow](path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d rows of a merged file came back as %d others", len(want), len(got))
		}
		if files, err := os.ReadDir(directory); err != nil || len(files) != 4 {
			t.Errorf("the directory has %v, want the three parts and the whole (%v)", files, err)
		}
		from[1].MaxRows--
		if err := MergeSamples(path, from); err == nil || !strings.Contains(err.Error(), "there are more than") {
			t.Errorf("a file with too many rows: %v", err)
		}
		if after, err := parquet.ReadFile[agentRow](path); err != nil || len(after) != len(want) {
			t.Errorf("a merge that failed spoilt the file: %v", err)
		}
	}
}

// One agent without samples still makes a file that others can read.
func TestMergeNoSamples(t *testing.T) {
	part, path := filepath.Join(t.TempDir(), "part"), filepath.Join(t.TempDir(), "all")
	if err := errors.Join(WriteParquet(part, nil), MergeSamples(path, []SampleFile{{Path: part, Agent: "a"}})); err != nil {
		t.Fatal(err)
	}
	if rows, err := parquet.ReadFile[agentRow](path); err != nil || len(rows) != 0 {
		t.Errorf("%d rows: %v", len(rows), err)
	}
}

func TestPackedNumbersComeBack(t *testing.T) {
	for _, values := range [][]int64{{0}, {math.MaxInt64, math.MinInt64, 0, -1, math.MaxInt64}, slices.Repeat([]int64{1, 5, 2}, 100)} {
		got, err := unpackDeltas(nil, packDeltas(values), len(values))
		if err != nil || !slices.Equal(got, values) {
			t.Errorf("%v came back as %v: %v", values, got, err)
		}
	}
}

// A damaged file, or one of another program, is refused. It takes no more memory than a row group.
func FuzzReadRowGroups(f *testing.F) {
	var file bytes.Buffer
	log, _ := sampleLog(3, 300, 0)
	defer log.Close()
	if err := writeRows(&file, []*SampleLog{log}); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	for at := range 160 { // the begin of the file has the headers of the first columns
		damaged := bytes.Clone(file.Bytes())
		damaged[at] ^= 0x55
		f.Add(damaged)
	}
	for _, length := range []int{0, 4, 8, 100, file.Len() - 1} {
		f.Add(file.Bytes()[:length])
		f.Add(append(bytes.Clone(file.Bytes()[:length]), file.Bytes()[file.Len()-8:]...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows := 0
		err := readRowGroups(bytes.NewReader(data), int64(len(data)), func(columns [][]int64) error {
			for _, c := range columns {
				if len(c) != len(columns[0]) || len(c) > rowsPerGroup {
					t.Fatalf("%d and %d rows", len(columns[0]), len(c))
				}
			}
			rows += len(columns[0])
			return nil
		})
		if bytes.Equal(data, file.Bytes()) && (err != nil || rows != 300) {
			t.Errorf("%d rows of the writer's own file: %v", rows, err)
		}
	})
}

package latency

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// A SampleFile holds the samples of one machine's client.
type SampleFile struct {
	Path    string
	Agent   string // the name of the machine's agent
	ShiftNS int64  // added to the start of each sample
	MaxRows int64  // the file must not have more rows
}

// sortRows is the number of rows that MergeSamples sorts in memory, 56 bytes each. A test reduces it.
var sortRows = 1 << 19

// MergeSamples merges samples files into one, which has the column agent besides, in the order of
// start_ns. Its memory is bounded: it sorts stretches of the files, keeps them in a temporary file
// beside path, and merges them. It removes no file of from.
func MergeSamples(path string, from []SampleFile) error {
	sorted, err := os.Create(path + ".sort")
	if err != nil {
		return fmt.Errorf("latency: sort samples: %w", err)
	}
	m := sampleSorter{file: sorted}
	agents := parquetColumn{name: "agent", kind: parquetBytes}
	for i, f := range from {
		agents.texts = append(agents.texts, f.Agent)
		if err = m.addFile(i, f); err != nil {
			err = fmt.Errorf("latency: read samples from %s: %w", f.Path, err)
			break
		}
	}
	if err == nil {
		err = m.flush()
	}
	if err == nil {
		err = replaceFile(path, func(to io.Writer) error { return m.write(to, append(sampleColumns[:], agents)) })
	}
	return errors.Join(err, sorted.Close(), os.Remove(sorted.Name()))
}

// A mergedRow holds the values of a row, in the order of sampleColumns, and the agent's index.
type mergedRow [len(sampleColumns) + 1]int64

const startColumn, agentColumn = 2, len(sampleColumns)

// compareRows orders rows by start, then by agent, client and number.
func compareRows(a, b *mergedRow) int {
	return cmp.Or(cmp.Compare(a[startColumn], b[startColumn]), cmp.Compare(a[agentColumn], b[agentColumn]), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

// A sampleSorter sorts rows into runs. A run is a sorted stretch of its file.
type sampleSorter struct {
	file    *os.File
	written int64
	runs    []sortedRun
	rows    []mergedRow // not yet written
	encoded []byte      // memory that flush uses again
}

func (s *sampleSorter) addFile(agent int, f SampleFile) error {
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	status, err := file.Stat()
	if err != nil {
		return err
	}
	left := f.MaxRows
	return readRowGroups(file, status.Size(), func(columns [][]int64) error {
		if left -= int64(len(columns[0])); left < 0 {
			return fmt.Errorf("there are more than %d rows: the client made fewer requests", f.MaxRows)
		}
		for i := range columns[0] {
			row := mergedRow{agentColumn: int64(agent)}
			for column, values := range columns {
				row[column] = values[i]
			}
			row[startColumn] += f.ShiftNS
			if s.rows = append(s.rows, row); len(s.rows) >= sortRows {
				if err := s.flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// flush sorts the rows in memory, and writes them as a run.
func (s *sampleSorter) flush() error {
	slices.SortFunc(s.rows, func(a, b mergedRow) int { return compareRows(&a, &b) })
	run := sortedRun{from: s.written, left: len(s.rows)}
	out := bufio.NewWriter(s.file)
	for _, row := range s.rows {
		s.encoded = s.encoded[:0]
		for _, value := range row {
			s.encoded = binary.AppendVarint(s.encoded, value)
		}
		s.written += int64(len(s.encoded))
		_, _ = out.Write(s.encoded) // Flush returns the error
	}
	run.to, s.rows = s.written, s.rows[:0]
	s.runs = append(s.runs, run)
	return out.Flush()
}

// write merges the runs into a samples file.
func (s *sampleSorter) write(to io.Writer, columns []parquetColumn) error {
	var merging rowHeap
	for _, run := range s.runs {
		const bufferBytes = 16 << 10 // a thousand runs take 16 MB
		run.in = bufio.NewReaderSize(io.NewSectionReader(s.file, run.from, run.to-run.from), bufferBytes)
		if more, err := run.next(); err != nil {
			return err
		} else if more {
			merging = append(merging, &run)
		}
	}
	heap.Init(&merging)
	rows := newRowWriter(to, columns)
	for len(merging) > 0 {
		first := merging[0]
		rows.add(first.row[:])
		more, err := first.next()
		switch {
		case err != nil:
			return err
		case more:
			heap.Fix(&merging, 0)
		default:
			heap.Pop(&merging)
		}
	}
	return rows.close()
}

type sortedRun struct {
	from, to int64 // where the run is in the file
	left     int   // rows that are not yet read
	in       *bufio.Reader
	row      mergedRow
}

// next reads the next row. more is false after the last one.
func (r *sortedRun) next() (more bool, err error) {
	if r.left == 0 {
		return false, nil
	}
	r.left--
	for i := range r.row {
		if r.row[i], err = binary.ReadVarint(r.in); err != nil {
			return false, err
		}
	}
	return true, nil
}

// A rowHeap holds runs. The run with the smallest row comes first.
type rowHeap []*sortedRun

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(a, b int) bool { return compareRows(&h[a].row, &h[b].row) < 0 }
func (h rowHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *rowHeap) Push(run any)      { *h = append(*h, run.(*sortedRun)) }
func (h *rowHeap) Pop() any {
	last := len(*h) - 1
	run := (*h)[last]
	*h = (*h)[:last]
	return run
}

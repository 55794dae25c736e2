package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// Whatever a file holds, reading it does not panic, and every line of it is
// read, or is the torn last one, or is named by the error.
func FuzzReadLines(f *testing.F) {
	var valid []byte
	for trial := range 3 {
		text, err := json.Marshal(sample(trial))
		if err != nil {
			f.Fatal(err)
		}
		valid = append(append(valid, text...), '\n')
	}
	f.Add(valid)
	f.Add(valid[:len(valid)-7])
	f.Add([]byte("{\"version\":1}\n{\"version\":2}\n"))
	f.Add([]byte("{\"version\":1}\n\x00\x00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := bytes.Count(data, []byte("\n"))
		if len(data) > 0 && data[len(data)-1] != '\n' {
			lines++
		}
		read, end := 0, int64(0)
		var failure error
		for l, err := range readLines(bytes.NewReader(data)) {
			if failure != nil {
				t.Fatalf("went on after %v", failure)
			}
			if failure = err; err != nil {
				continue
			}
			read++
			if l.number != read || l.end <= end || data[l.end-1] != '\n' {
				t.Fatalf("line %d as number %d, from %d to %d", read, l.number, end, l.end)
			}
			if l.record.Version != Version {
				t.Fatalf("line %d: version %d was read", read, l.record.Version)
			}
			end = l.end
		}
		var torn *tornError
		switch {
		case failure == nil && read != lines:
			t.Fatalf("%d of %d lines were read, without an error", read, lines)
		case errors.As(failure, &torn) && read != lines-1:
			t.Fatalf("%d of %d lines were read, and one is torn: %v", read, lines, failure)
		case errors.As(failure, &torn) && int64(torn.bytes) != int64(len(data))-end:
			t.Fatalf("the torn end has %d bytes, want %d", torn.bytes, int64(len(data))-end)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"version":1,"name":"x","started":"2026-11-21T05:00:00Z","status":"done","order":[{"trial":0,"repeat":1,"cell":"a"}],"scenario":{},"host":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest(data)
		if err == nil && m.Version != Version {
			t.Fatalf("version %d was read", m.Version)
		}
	})
}

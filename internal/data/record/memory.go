package record

import (
	"cmp"
	"encoding/json"
)

// A memory holds the records of a run that a user wants to see also if they cannot be saved.
type memory struct {
	records [][]byte // in JSON
	lost    error    // the first failure to write the run; nil if there was none
}

// InMemory begins a run without a directory, so its Dir is empty.
func InMemory(m Manifest) *Run {
	m.Version, m.Status = Version, Running
	return &Run{Manifest: m, done: map[int]bool{}, memory: &memory{}}
}

// KeepInMemory makes the run keep its records in memory, too. A failure to write the run then does
// not end it: Lost returns the failure.
func (r *Run) KeepInMemory() { r.memory = &memory{} }

// Lost returns the first failure to write a run that is kept in memory.
func (r *Run) Lost() error {
	if r.memory == nil {
		return nil
	}
	return r.memory.lost
}

// isOnlyInMemory reports whether the run has no directory, or one that could not be written.
func (r *Run) isOnlyInMemory() bool {
	return r.Dir == "" || r.memory != nil && r.memory.lost != nil
}

// keep stores a record in memory, and reports whether it need not be written.
func (m *memory) keep(record Record) (enough bool, _ error) {
	if m == nil {
		return false, nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		return false, err
	}
	m.records = append(m.records, text)
	return m.lost != nil, nil
}

// survive returns nil for a failure to write a run that is in memory, which it stores.
func (r *Run) survive(err error) error {
	if err == nil || r.memory == nil {
		return err
	}
	r.memory.lost = cmp.Or(r.memory.lost, err)
	return nil
}

func (m *memory) all(yield func(Record, error) bool) {
	for _, text := range m.records {
		record, err := decodeRecord(text)
		if !yield(record, err) {
			return
		}
	}
}

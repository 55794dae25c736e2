package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Attempt is a measurement of a trial that was thrown away, because only the machine, or
// too short a warm-up, spoiled it. setback.jsonl has its whole record.
type Attempt struct {
	Started time.Time `json:"started"`
	TookNS  int64     `json:"took_ns"`
	Check   string    `json:"check"`  // that refused it
	Detail  string    `json:"detail"` // what the check said
}

// SetBack keeps a measurement that is to be thrown away, once its trial has been measured
// again. The record says what was thrown away before it. Like Append it writes the
// record whole, or not at all.
func (r *Run) SetBack(record Record) error {
	record.Version = Version
	err := r.mayAppend(record)
	if err == nil && r.setBack.file == nil {
		r.setBack.file, err = os.OpenFile(r.path(setBackFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	}
	if err == nil {
		err = r.setBack.append(record)
	}
	if err != nil {
		return fmt.Errorf("set back trial %d: %w", record.Trial, err)
	}
	r.forgetSetBack(record.Trial)
	r.waiting = append(r.waiting, &record)
	return nil
}

// SetBackTrials are the trials that were set back and have no record yet, each with its
// last measurement, in the order in which they were set back. A run that Open returned
// has none.
func (r *Run) SetBackTrials() []*Record { return slices.Clone(r.waiting) }

func (r *Run) forgetSetBack(trial int) {
	r.waiting = slices.DeleteFunc(r.waiting, func(w *Record) bool { return w.Trial == trial })
}

// readSetBack reads what was set back, to go on with it.
func (r *Run) readSetBack() error {
	file, err := os.OpenFile(r.path(setBackFile), os.O_RDWR|os.O_APPEND, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.setBack.file = file
	planned := r.planned()
	for l, err := range readLines(file, often) {
		var torn *tornError
		switch {
		case errors.As(err, &torn):
			r.Warnings = append(r.Warnings, setBackFile+": "+torn.Error())
		case err != nil:
			return fmt.Errorf("%s: %w", file.Name(), err)
		case planned.check(l) != nil:
			return fmt.Errorf("%s: %w: remove the file; what was set back is then measured anew", file.Name(), planned.check(l))
		default:
			r.setBack.end = l.end
			r.forgetSetBack(l.record.Trial)
			if !r.done[l.record.Trial] {
				r.waiting = append(r.waiting, &l.record)
			}
		}
	}
	return file.Truncate(r.setBack.end)
}

// journal is a file that records are appended to.
type journal struct {
	file   *os.File
	end    int64 // of the last whole record
	broken error // why nothing more can be appended
}

// append writes a record, whole and at once, or leaves the file as it was.
func (j *journal) append(record Record) error {
	if j.broken != nil {
		return j.broken
	}
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	_, err = j.file.Write(text)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		// Half a line in the middle of the file would be damage.
		if cut := j.file.Truncate(j.end); cut != nil {
			j.broken = fmt.Errorf("the end of %s is half written and cannot be cut off: %w", j.file.Name(), cut)
		}
		return errors.Join(err, j.broken)
	}
	j.end += int64(len(text))
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	file := j.file
	j.file = nil
	return file.Close()
}

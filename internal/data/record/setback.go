package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// SetBack stores the record of an invalid trial that will be measured again. The trial's later
// record lists it as an attempt. SetBack writes the complete record, or nothing.
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
		return fmt.Errorf("keep the discarded measurement of trial %d: %w", record.Trial, err)
	}
	r.removeWaiting(record.Trial)
	r.waiting = append(r.waiting, &record)
	return nil
}

// SetBackTrials returns the latest records of the trials that will be measured again, the longest
// wait first. A run from Open has none.
func (r *Run) SetBackTrials() []*Record { return slices.Clone(r.waiting) }

func (r *Run) removeWaiting(trial int) {
	r.waiting = slices.DeleteFunc(r.waiting, func(w *Record) bool { return w.Trial == trial })
}

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
	for l, err := range readLines(file, repeatedTrials) {
		var torn *tornError
		switch {
		case errors.As(err, &torn):
			r.Warnings = append(r.Warnings, setBackFile+": "+torn.Error())
		case err != nil:
			return fmt.Errorf("%s: %w", file.Name(), err)
		case planned.check(l) != nil:
			return fmt.Errorf("%s: %w: remove the file to measure its trials again", file.Name(), planned.check(l))
		default:
			r.setBack.end = l.end
			r.removeWaiting(l.record.Trial)
			if !r.done[l.record.Trial] {
				r.waiting = append(r.waiting, &l.record)
			}
		}
	}
	return file.Truncate(r.setBack.end)
}

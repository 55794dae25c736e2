package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

type journal struct {
	file   *os.File
	end    int64 // the offset after the last whole record
	broken error // the reason why no record can be appended, or nil
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
			j.broken = fmt.Errorf("%s ends in a half-written line, which cannot be removed: %w", j.file.Name(), cut)
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

// maxLineBytes bounds the size of one record.
const maxLineBytes = 64 << 20

type line struct {
	record Record
	number int   // from 1
	end    int64 // the offset after the line
}

// A tornError reports a last line without its end. A process that was killed while it
// appended leaves such a line.
type tornError struct {
	number int
	bytes  int
}

func (e *tornError) Error() string {
	return fmt.Sprintf("line %d is half written (%d bytes), perhaps by a killed process: the line's trial is not recorded", e.number, e.bytes)
}

// trialOccurrence says how often a file may hold a trial.
type trialOccurrence bool

const (
	oncePerTrial   trialOccurrence = false
	repeatedTrials trialOccurrence = true
)

// readLines yields the records of a file one by one, so that a run of any length takes the memory
// of one record. It ends with the first error. A *tornError is always about the last line of the
// file; any other error is damage, names its line, and is never ignored.
func readLines(from io.Reader, each trialOccurrence) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		reader := bufio.NewReaderSize(from, 64<<10)
		lineOf := map[int]int{} // the line of each trial
		var offset int64
		for number := 1; ; number++ {
			text, err := readLine(reader)
			offset += int64(len(text))
			ended := errors.Is(err, io.EOF)
			if ended && len(text) == 0 {
				return
			}
			l := line{number: number, end: offset}
			if err == nil {
				l.record, err = decodeRecord(text)
				ended = errors.Is(err, errNoJSON) && atEnd(reader)
			}
			if ended {
				err = &tornError{number, len(text)}
			}
			if earlier, twice := lineOf[l.record.Trial]; err == nil && twice && each == oncePerTrial {
				err = fmt.Errorf("trial %d is already in line %d", l.record.Trial, earlier)
			}
			lineOf[l.record.Trial] = number
			var torn *tornError
			if err != nil && !errors.As(err, &torn) {
				err = fmt.Errorf("line %d: %w", number, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// readLine reads one line with its newline. A last line without a newline is returned with io.EOF.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := reader.ReadSlice('\n')
		if len(text)+len(part) > maxLineBytes {
			return nil, fmt.Errorf("the record is longer than %d MiB, which is the limit", maxLineBytes>>20)
		}
		text = append(text, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

func atEnd(reader *bufio.Reader) bool {
	_, err := reader.Peek(1)
	return errors.Is(err, io.EOF)
}

// errNoJSON means that a line is not whole.
var errNoJSON = errors.New("the line is not JSON")

func decodeRecord(text []byte) (r Record, err error) {
	if !json.Valid(text) {
		return Record{}, fmt.Errorf("%w, so it is damaged: delete the line to read the other trials", errNoJSON)
	}
	var version versionError
	err = decodeVersioned(text, &r)
	switch {
	case errors.As(err, &version):
		return Record{}, err
	case err != nil:
		return Record{}, fmt.Errorf("the line is not a record: %w", err)
	case r.Trial < 0:
		return Record{}, fmt.Errorf("the trial number is %d: want 0 or more", r.Trial)
	case r.Profile == "allocations":
		r.Probe, r.Profile = ProbeAllocations, ""
	}
	if err := r.checkIndices(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// decodeVersioned reads the version first, since a newer version may differ in
// everything else. A version that this program cannot read is a [versionError].
func decodeVersioned(text []byte, into any) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Version < 1 || head.Version > Version {
		return versionError(head.Version)
	}
	return json.Unmarshal(text, into)
}

type versionError int

func (v versionError) Error() string {
	if v > Version {
		return fmt.Sprintf("the version is %d, but this program reads versions up to %d: use a newer wirelab", v, Version)
	}
	return fmt.Sprintf("the version is missing, so the meaning of the fields is unknown; this program writes version %d", Version)
}

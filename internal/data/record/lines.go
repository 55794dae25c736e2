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
	end    int64 // the offset after the last complete record
	broken error // why no record can be appended; nil if one can
}

// append writes a complete record. If it fails, the file is unchanged.
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
		// An incomplete line in the middle of the file would be damage.
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

// maxLineBytes limits the size of a record in a file.
const maxLineBytes = 64 << 20

type line struct {
	record Record
	number int   // line number, from 1
	end    int64 // the offset after the line
}

// A tornError reports an incomplete last line. A process leaves such a line if it is killed while
// it appends.
type tornError struct {
	number int
	bytes  int
}

func (e *tornError) Error() string {
	return fmt.Sprintf("line %d is half written (%d bytes), perhaps by a killed process: the line's trial is not recorded", e.number, e.bytes)
}

// readLines yields the records of a file one at a time, so memory does not grow with the length of
// the run. It ends with the first error. A *tornError means that the last line is incomplete. Any
// other error means damage and names the damaged line.
func readLines(from io.Reader) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		reader := bufio.NewReaderSize(from, 64<<10)
		lineOf := map[int]int{} // maps each trial to its line
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
			if earlier, twice := lineOf[l.record.Trial]; err == nil && twice {
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

// readLine reads a line with its newline. It returns a last line without newline with io.EOF.
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

// errNoJSON means that a line is not complete JSON.
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

// decodeVersioned reads the version first, because a newer version may have other fields. It
// returns a [versionError] for a version that this program cannot read.
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

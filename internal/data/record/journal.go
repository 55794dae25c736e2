package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// A journal is a file that records are appended to.
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

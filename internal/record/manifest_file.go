package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

func (r *Run) readManifest() error {
	name := r.path(manifestFile)
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoRun
	}
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxLineBytes))
	if err != nil {
		return err
	}
	r.Manifest, err = decodeManifest(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// writeManifest puts a whole manifest in the place of the old one, so that a
// reader finds one or the other at any instant.
func (r *Run) writeManifest() error {
	r.Manifest.Version = Version
	data, err := json.MarshalIndent(r.Manifest, "", "  ")
	if err != nil {
		return err
	}
	unfinished := r.path(manifestFile + ".tmp")
	if err := writeSynced(unfinished, append(data, '\n')); err != nil {
		return err
	}
	if err := os.Rename(unfinished, r.path(manifestFile)); err != nil {
		return err
	}
	return syncDir(r.Dir)
}

func writeSynced(name string, data []byte) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncDir puts a renamed or created name on disk.
func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func decodeManifest(data []byte) (Manifest, error) {
	// As with a record: the version says whether the rest can be read.
	var version struct {
		Version int `json:"version"`
	}
	if err := unmarshalFile(data, &version); err != nil {
		return Manifest{}, err
	}
	if err := checkVersion(version.Version); err != nil {
		line, _ := lineColumn(data, int64(bytes.Index(data, []byte(`"version"`))))
		return Manifest{}, fmt.Errorf("line %d: %w", line, err)
	}
	var m Manifest
	err := unmarshalFile(data, &m)
	return m, err
}

// unmarshalFile is json.Unmarshal with the place in its errors.
func unmarshalFile(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var (
		syntax   *json.SyntaxError
		mismatch *json.UnmarshalTypeError
		offset   int64
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &mismatch):
		offset = mismatch.Offset
	}
	line, column := lineColumn(data, offset-1) // both count the byte that they stopped at
	return fmt.Errorf("line %d, column %d: the file is damaged: %w", line, column, err)
}

// lineColumn is where an offset of a file is, for people.
func lineColumn(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"wirelab.dev/internal/data/record"
)

// A folder is the only place where tools read and write runs. Its path has no symbolic links.
type folder string

func openFolder(path string) (folder, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return folder(path), err
}

// run returns the directory of a run, or an error if it or one of its files is outside the folder.
func (f folder) run(name string) (string, error) {
	if name == "" {
		return "", errors.New("the run is missing: name its directory; the tool runs lists them")
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(string(f), path)
	}
	for _, file := range []string{"", "manifest.json", "records.jsonl"} {
		if err := f.holds(filepath.Join(path, file)); err != nil {
			return "", fmt.Errorf("run %s: %w", name, err)
		}
	}
	return filepath.EvalSymlinks(path)
}

// holds returns an error if a path, or what its symbolic links lead to, is outside the folder.
func (f folder) holds(path string) error {
	target, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.IsLocal(relative(string(f), path)):
		return fmt.Errorf("%s does not exist: the tool runs lists the runs of %s", filepath.Base(path), f)
	case err == nil && filepath.IsLocal(relative(string(f), target)):
		return nil
	}
	return fmt.Errorf("is outside %s, the only folder that this server reads (--runs)", f)
}

// relative returns the path from a folder to another path, or ".." if there is none.
func relative(from, to string) string {
	path, err := filepath.Rel(from, to)
	if err != nil {
		return ".."
	}
	return path
}

// mayWrite returns an error if new runs would be outside the folder.
func (f folder) mayWrite() error {
	err := f.holds(filepath.Join(string(f), record.RunsFolder))
	if _, found := filepath.EvalSymlinks(filepath.Join(string(f), record.RunsFolder)); errors.Is(found, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s, the folder for new runs, %w", record.RunsFolder, err)
	}
	return nil
}

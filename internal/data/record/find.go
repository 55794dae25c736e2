package record

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Newest returns the run directories in a folder, the last written first. It bounds their number,
// and leaves out runs whose records have too many bytes. A missing folder has none.
func Newest(folder string, most int, mostBytes int64) []string {
	type dated struct {
		directory string
		written   time.Time
	}
	var runs []dated
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		directory := filepath.Join(folder, entry.Name())
		manifest, err := os.Stat(filepath.Join(directory, manifestFile))
		if err != nil || !manifest.Mode().IsRegular() || manifest.Size() > mostBytes {
			continue
		}
		records, err := os.Stat(filepath.Join(directory, recordsFile))
		if err != nil || !records.Mode().IsRegular() || records.Size() > mostBytes {
			continue
		}
		runs = append(runs, dated{directory, manifest.ModTime()})
	}
	slices.SortFunc(runs, func(a, b dated) int {
		return cmp.Or(b.written.Compare(a.written), cmp.Compare(b.directory, a.directory))
	})
	var names []string
	for _, run := range runs[:min(len(runs), most)] {
		names = append(names, run.directory)
	}
	return names
}

// ReadManifest reads the manifest of a run directory, and nothing else.
func ReadManifest(dir string) (Manifest, error) {
	r := Run{Dir: dir}
	err := r.readManifest()
	return r.Manifest, err
}

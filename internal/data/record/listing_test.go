package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestListFindsRunsInBothFolders(t *testing.T) {
	folder := t.TempDir()
	for i, directory := range []string{"first", filepath.Join(RunsFolder, "second")} {
		run, err := Create(filepath.Join(folder, directory), Manifest{Name: "compare", Title: directory, Started: time.Unix(int64(i), 0), Command: []string{"wirelab"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Finish(Done); err != nil {
			t.Fatal(err)
		}
	}
	damaged := filepath.Join(folder, "damaged")
	if err := os.Mkdir(damaged, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{manifestFile, recordsFile} {
		if err := os.WriteFile(filepath.Join(damaged, file), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := List(folder)
	if err != nil || len(found.Runs) != 2 {
		t.Fatalf("found %+v, %v; want two runs", found, err)
	}
	if latest := found.Runs[0]; latest.Directory != filepath.Join(folder, RunsFolder, "second") || latest.Status != Done || latest.Name != "compare" || len(latest.Command) != 1 {
		t.Errorf("the latest run is listed as %+v", latest)
	}
	var words strings.Builder
	if err := found.Write(&words); err != nil || strings.Count(words.String(), "\n") != 2 || !strings.Contains(words.String(), "done") {
		t.Errorf("printed %q, %v", words.String(), err)
	}
	if _, err := List(filepath.Join(folder, "nowhere")); err == nil {
		t.Error("a missing folder is listed")
	}
}

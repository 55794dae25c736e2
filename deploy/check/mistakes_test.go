package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder holds the files to check.
const folder = ".."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mistake is a small change that spoils a file.
type mistake struct {
	name     string
	file     string
	old, new string
	want     string // part of the complaint
}

// mustFind makes each mistake in the text of its file, and has check find it.
func mustFind(t *testing.T, mistakes []mistake, check func(t *testing.T, name, text string) error) {
	t.Helper()
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			text := read(t, m.file)
			spoiled := strings.Replace(text, m.old, m.new, 1)
			if spoiled == text {
				t.Fatalf("%s has no %q to spoil", m.file, m.old)
			}
			err := check(t, m.file, spoiled)
			if err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("with %q in place of %q: %v; want a complaint with %q", m.new, m.old, err, m.want)
			}
		})
	}
}

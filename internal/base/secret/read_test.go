package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wirelab.dev/internal/base/secret"
)

func TestRead(t *testing.T) {
	t.Setenv("WIRELAB_TOKEN", "s3cret")
	t.Setenv("WIRELAB_EMPTY", "")
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "@" + path
	}
	for value, want := range map[string]string{
		"plain": "plain", "": "", "$WIRELAB_TOKEN": "s3cret", "$1": "$1", "$A:b": "$A:b", file("one", "s3cret\r\n"): "s3cret",
	} {
		if got, err := secret.Read(value); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", value, got, err, want)
		}
	}
	for value, want := range map[string]string{
		"$WIRELAB_UNSET":    "the environment variable WIRELAB_UNSET is not set: export it, or give @FILE",
		"$WIRELAB_EMPTY":    "WIRELAB_EMPTY is not set",
		"@/nowhere/file":    "no such file",
		file("empty", "\n"): "want one line", file("two", "s3cret\nb"): "want one line",
		file("large", strings.Repeat("x", 65<<10)): "has more than 64 KiB",
	} {
		if got, err := secret.Read(value); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %q, %v; want %q", value, got, err, want)
		}
	}
}

package peer

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingToolsAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, p := range All() {
		_, err := p.Build(t.Context(), io.Discard)
		if tool := p.tools[0]; err == nil || !strings.Contains(err.Error(), tool.program+" is not installed: it comes with "+tool.from) {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// A step that fails is an error with its last lines, and leaves nothing.
func TestABuildThatFails(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	p := Peer{Name: "rust", built: "none", steps: [][]string{{"sh", "-c", "echo one; echo two >&2; exit 3"}}}
	_, err := p.Build(t.Context(), io.Discard)
	for _, want := range []string{"the peer rust could not be built", "exit status 3", "one\n  two"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "wirelab", "*")); len(left) > 0 { // the pattern is good
		t.Errorf("left behind: %v", left)
	}
}

// A program keeps what it needs around it, and is built once.
func TestAProgramKeepsItsFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	script := "mkdir -p out/bin && echo 'cat $(dirname $0)/../beside' > out/bin/run && echo kept > out/beside && chmod +x out/bin/run"
	p := Peer{Name: "rust", built: "out/bin/run", keeps: "out", steps: [][]string{{"sh", "-c", script}}}
	for range 2 {
		path, err := p.Build(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command("sh", path).CombinedOutput(); err != nil || string(said) != "kept\n" {
			t.Errorf("it said %q: %v", said, err)
		}
		p.steps = [][]string{{"false"}} // a second build would fail
	}
}

package peer

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestMissingToolsAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, p := range All() {
		_, err := p.Build(t.Context(), io.Discard)
		if tool := p.tools[0]; err == nil || !strings.Contains(err.Error(), tool.program+" is not installed: install "+tool.from) {
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
	for _, want := range []string{"build the peer rust: ", "exit status 3", "one\n  two"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	left, _ := filepath.Glob(filepath.Join(cache, "wirelab", "*")) // the pattern is good
	if left = slices.DeleteFunc(left, func(name string) bool { return strings.HasSuffix(name, ".lock") }); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Of several processes that need a program at once, one builds it.
func TestAProgramIsBuiltOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	builds := filepath.Join(t.TempDir(), "builds")
	t.Setenv("BUILDS", builds)
	p := Peer{Name: "rust", built: "run", steps: [][]string{{"sh", "-c", "echo built >> $BUILDS; touch run"}}}
	var building sync.WaitGroup
	for range 8 {
		building.Go(func() {
			if _, err := p.Build(t.Context(), io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	building.Wait()
	if got, err := os.ReadFile(builds); err != nil || string(got) != "built\n" {
		t.Errorf("builds: %q, %v", got, err)
	}
}

// Who waits for another's build can be interrupted.
func TestAWaitForABuildEnds(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := Peer{Name: "rust", built: "run", steps: [][]string{{"touch", "run"}}}
	folder, err := p.cacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFile(t.Context(), folder+".lock", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := p.Build(ctx, io.Discard); !errors.Is(err, why) {
		t.Errorf("got %v", err)
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

// The peer rivals is built from wirelab's own source. Without it, an error says what was looked for.
func TestRivalsNeedAClone(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	before, err := rivals.Path()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := rivals.Path(); err != nil || again != before {
		t.Errorf("the same source gives %s and %s: %v", before, again, err)
	}
	folder := t.TempDir()
	t.Chdir(folder)
	_, err = rivals.Build(t.Context(), io.Discard)
	for _, want := range []string{"cannot build the peer rivals", folder, "go.mod with `module wirelab.dev`", "in a clone of its repository"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	all, err := List()
	if err != nil || all[len(all)-1].Missing == "" {
		t.Errorf("the list says %+v, %v", all[len(all)-1], err)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestGoInstall makes a module proxy of files from the last commit, as if it had the tags v0.1.0 and
// rpc/v0.1.0, and installs wirelab from it as a user would: no go.work and no replacement are there.
func TestGoInstall(t *testing.T) {
	if os.Getenv("WIRELAB_INSTALL") == "" {
		t.Skip("go install compiles all of wirelab, which takes minutes: make install-test runs this")
	}
	original, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cloned, err := clone(t.Context(), original, t.TempDir()) // package zip knows no worktrees
	if err != nil {
		t.Fatal(err)
	}
	root := cloned.folder
	const version = "v0.1.0"
	proxy := t.TempDir()
	for path, folder := range map[string]string{"wirelab.dev": "", "wirelab.dev/rpc": "rpc"} {
		serve(t, module.Version{Path: path, Version: version}, root, folder, proxy)
	}
	ctx := t.Context()
	downloaded, err := command(ctx, root, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	environment := []string{
		"GOPATH=" + empty, "GOMODCACHE=" + filepath.Join(empty, "pkg", "mod"), "GOBIN=", "GOWORK=", "GOTOOLCHAIN=local",
		// The dependencies come from the downloads of this machine, in their packed form.
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(downloaded, "cache", "download"),
		"GOSUMDB=off", "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0",
	}
	if said, err := command(ctx, empty, environment, "go", "install", "wirelab.dev/cmd/wirelab@"+version); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	program := filepath.Join(empty, "bin", "wirelab")
	said, err := command(ctx, empty, nil, program, "version", "--json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"version": "` + version + `"`, `"dirty": false`, `"go": "go1.`} {
		if !strings.Contains(said, want) {
			t.Errorf("wirelab version --json lacks %s:\n%s", want, said)
		}
	}
	if said, err := command(ctx, empty, nil, program, "list"); err != nil || !strings.Contains(said, "kernel-study") {
		t.Errorf("wirelab list: %v, want the studies:\n%s", err, said)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("installed %.1f MB, which says:\n%s", float64(info.Size())/1e6, said)
}

// serve puts a module into the proxy's folder, in the form of https://go.dev/ref/mod#goproxy-protocol.
func serve(t *testing.T, m module.Version, root, folder, proxy string) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	packed, err := os.Create(filepath.Join(at, m.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromVCS(packed, m, root, "HEAD", folder); err != nil {
		t.Fatalf("pack %s: %v", m.Path, err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	requirements, err := command(t.Context(), root, nil, "git", "show", "HEAD:"+filepath.ToSlash(filepath.Join(folder, "go.mod")))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": m.Version + "\n", m.Version + ".mod": requirements + "\n",
		m.Version + ".info": fmt.Sprintf(`{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, m.Version),
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVersionOf(t *testing.T) {
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for tags, want := range map[string]string{"v0.1.0": "0.1.0", "v0.2.0-rc1\nv0.1.0": "0.2.0-rc1", "": "0.0.0-git20260102030405"} {
		if found := versionOf(tags, date); found != want {
			t.Errorf("tags %q: found %s, want %s", tags, found, want)
		}
	}
}

func TestMistakesAreExplained(t *testing.T) {
	full := t.TempDir()
	if err := run(t.Context(), "..", full, ""); err == nil || !strings.Contains(err.Error(), full+": file exists: remove what is there, or choose another folder") {
		t.Errorf("into a folder that exists: found %v", err)
	}
	if err := run(t.Context(), "..", filepath.Join(full, "dist"), "linux/mips"); err == nil || !strings.Contains(err.Error(), "-only linux/mips is no target: want one of linux/amd64,") {
		t.Errorf("an unknown target: found %v", err)
	}
}

// small makes a release of programs that are a few bytes long, with every target.
func small(t *testing.T) *release {
	t.Helper()
	folder := t.TempDir()
	r := &release{dist: t.TempDir(), out: t.Output(), sums: map[string]string{}}
	r.folder, r.commit, r.version, r.date = folder, strings.Repeat("a", 40), "0.1.0", time.Unix(1e9, 0).UTC()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, text := range map[string]string{
		"LICENSE": "free", "README.md": "read", "CHANGELOG.md": "changed", "man/wirelab.1": ".TH", "man/wirelab-load.1": ".TH",
		"completion/wirelab.bash": "b", "completion/_wirelab": "z", "completion/wirelab.fish": "f", "completion/wirelab.ps1": "p",
	} {
		write(name, text)
	}
	for _, target := range targets {
		system, arch, _ := strings.Cut(target, "/")
		name := "wirelab"
		if system == "windows" {
			name += ".exe"
		}
		p := program{system, arch, write(filepath.Join(system+arch, name), "program for "+target)}
		steps := []func(program) error{r.archive}
		if system == "linux" {
			steps = append(steps, r.packages, r.image)
		}
		for _, step := range steps {
			if err := step(p); err != nil {
				t.Fatalf("%s: %v", target, err)
			}
		}
	}
	if err := r.finish(true); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFiles makes all files but the programs and their bills of materials, twice, and compares them.
func TestFiles(t *testing.T) {
	r, again := small(t), small(t)
	for _, want := range []string{
		"wirelab_0.1.0_linux_amd64.tar.gz", "wirelab_0.1.0_linux_arm64.tar.gz", "wirelab_0.1.0_darwin_arm64.tar.gz", "wirelab_0.1.0_windows_amd64.zip",
		"wirelab_0.1.0_amd64.deb", "wirelab_0.1.0_arm64.deb", "wirelab-0.1.0-1.x86_64.rpm", "wirelab-0.1.0-1.aarch64.rpm",
		"wirelab_0.1.0_x86_64.apk", "wirelab_0.1.0_aarch64.apk", "wirelab_0.1.0_image_amd64.tar", "wirelab_0.1.0_image_arm64.tar",
	} {
		switch {
		case r.sums[want] == "":
			t.Errorf("the release lacks %s: it has %v", want, r.sums)
		case r.sums[want] != again.sums[want]:
			t.Errorf("%s differs between two releases of one commit", want)
		}
	}
	for place, want := range map[string]string{
		"wirelab.rb":                            r.sums["wirelab_0.1.0_darwin_arm64.tar.gz"],
		"winget/Wirelab.Wirelab.installer.yaml": r.sums["wirelab_0.1.0_windows_amd64.zip"],
		"SHA256SUMS":                            r.sums["wirelab_0.1.0_amd64.deb"] + "  wirelab_0.1.0_amd64.deb\n",
	} {
		text, err := os.ReadFile(filepath.Join(r.dist, place))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s (%v) lacks the sum %s:\n%s", place, err, want, text)
		}
	}
	if names := namesIn(t, filepath.Join(r.dist, "wirelab_0.1.0_linux_amd64.tar.gz")); !slices.Contains(names, "wirelab_0.1.0_linux_amd64/man/wirelab-load.1") || !slices.Contains(names, "wirelab_0.1.0_linux_amd64/wirelab") {
		t.Errorf("the archive has %v", names)
	}
}

func namesIn(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for read := tar.NewReader(unpacked); ; {
		header, err := read.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(header.Name, "/wirelab") && header.Mode&0o111 == 0 {
			t.Errorf("%s is not executable", header.Name)
		}
		names = append(names, header.Name)
	}
}

// A program that has grown above the limit is refused.
func TestSizeIsLimited(t *testing.T) {
	p := program{path: filepath.Join(t.TempDir(), "wirelab")}
	for size, want := range map[int64]string{mostBytes: "", mostBytes + 1e6: "the program has 61.0 MB, more than 60: make size says what each module adds"} {
		if err := errors.Join(os.WriteFile(p.path, nil, 0o600), os.Truncate(p.path, size)); err != nil {
			t.Fatal(err)
		}
		if err := p.limit(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: found %v, want %q", size, err, want)
		}
	}
}

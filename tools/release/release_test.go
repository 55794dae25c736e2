package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVersionOf(t *testing.T) {
	commit := strings.Repeat("0123456789", 4)
	for tags, want := range map[string]string{"v0.1.0": "0.1.0", "v0.2.0-rc.1\nv0.1.0": "0.2.0-rc.1", "": "0.0.0-snapshot.012345678901"} {
		if found := versionOf(tags, commit); found != want {
			t.Errorf("tags %q: found %s, want %s", tags, found, want)
		}
	}
}

func TestEmptyFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dist")
	if err := emptyFolder(folder); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(folder, "old.deb")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptyFolder(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old file is still there: %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptyFolder(other); err == nil || !strings.Contains(err.Error(), "choose another with -dist") {
		t.Errorf("a folder with other files: found %v, want a refusal", err)
	}
}

// small returns a release of programs that are a few bytes long, with every target.
func small(t *testing.T) *release {
	t.Helper()
	folder := t.TempDir()
	r := &release{dist: t.TempDir(), out: t.Output()}
	r.folder, r.commit, r.version, r.date = filepath.Join(folder, "wirelab"), strings.Repeat("a", 40), "0.1.0", time.Unix(1e9, 0).UTC()
	for name, text := range map[string]string{
		"LICENSE": "free", "README.md": "read", "CHANGELOG.md": "changed", "man/wirelab.1": ".TH", "man/wirelab-load.1": ".TH",
		"completion/wirelab.bash": "b", "completion/_wirelab": "z", "completion/wirelab.fish": "f", "completion/wirelab.ps1": "p",
	} {
		write(t, filepath.Join(r.folder, name), text)
	}
	for _, target := range targets {
		system, arch, _ := strings.Cut(target, "/")
		b := binary{system, arch, filepath.Join(folder, system+arch, "wirelab")}
		if system == "windows" {
			b.path += ".exe"
		}
		write(t, b.path, "program for "+target)
		r.binaries = append(r.binaries, b)
	}
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestFiles makes all files but the programs, twice, and compares them.
func TestFiles(t *testing.T) {
	sums := func() (*release, map[string]string) {
		r := small(t)
		for _, step := range []error{r.archives(t.Context()), r.packages(t.Context()), r.image(t.Context()), r.checksums(t.Context()), r.manifests(t.Context())} {
			if step != nil {
				t.Fatal(step)
			}
		}
		all := map[string]string{}
		for _, a := range r.made {
			all[a.name] = a.sum
		}
		return r, all
	}
	r, first := sums()
	_, second := sums()
	for _, want := range []string{
		"wirelab_0.1.0_linux_amd64.tar.gz", "wirelab_0.1.0_linux_arm64.tar.gz", "wirelab_0.1.0_darwin_arm64.tar.gz", "wirelab_0.1.0_windows_amd64.zip",
		"wirelab_0.1.0_amd64.deb", "wirelab_0.1.0_arm64.deb", "wirelab-0.1.0-1.x86_64.rpm", "wirelab-0.1.0-1.aarch64.rpm",
		"wirelab_0.1.0_x86_64.apk", "wirelab_0.1.0_aarch64.apk", "wirelab_0.1.0_image_amd64.tar", "wirelab_0.1.0_image_arm64.tar",
	} {
		switch {
		case first[want] == "":
			t.Errorf("the release lacks %s: it has %v", want, sortedNames(first))
		case first[want] != second[want]:
			t.Errorf("%s differs between two releases of one commit", want)
		}
	}
	for place, want := range map[string]string{
		"wirelab.rb":                            first["wirelab_0.1.0_darwin_arm64.tar.gz"],
		"winget/Wirelab.Wirelab.installer.yaml": strings.ToUpper(first["wirelab_0.1.0_windows_amd64.zip"]),
		"SHA256SUMS":                            first["wirelab_0.1.0_amd64.deb"] + "  wirelab_0.1.0_amd64.deb\n",
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

// The image of a release is the one that deploy's Containerfile describes.
func TestImageIsThatOfTheContainerfile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	config := imageConfig()
	for keyword, want := range map[string]string{
		"USER": config.User, "ENV": strings.Join(config.Env, " "), "WORKDIR": config.WorkingDir,
		"ENTRYPOINT": `["` + strings.Join(config.Entrypoint, `", "`) + `"]`, "CMD": `["` + strings.Join(config.Cmd, `", "`) + `"]`,
	} {
		if !bytes.Contains(text, []byte("\n"+keyword+" "+want+"\n")) {
			t.Errorf("deploy/Containerfile lacks %s %s", keyword, want)
		}
	}
	for label, value := range config.Labels {
		if !regexp.MustCompile(regexp.QuoteMeta(label) + `="` + regexp.QuoteMeta(value) + `"`).Match(text) {
			t.Errorf("deploy/Containerfile lacks the label %s=%s", label, value)
		}
	}
}

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// targets are the systems of a release. Linux is complete; docs/install.md says what works elsewhere.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// A binary is the program for one target.
type binary struct{ system, arch, path string }

// An artifact is a file of the release.
type artifact struct {
	binary
	name, sum string
}

func (r *release) environment(system, arch string) []string {
	return []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + arch, "GOWORK=", "SOURCE_DATE_EPOCH=" + fmt.Sprint(r.date.Unix())}
}

func (r *release) build(ctx context.Context) error {
	for _, target := range targets {
		system, arch, _ := strings.Cut(target, "/")
		if r.only != "" && r.only != target {
			continue
		}
		b := binary{system, arch, filepath.Join(filepath.Dir(r.folder), "programs", system+"_"+arch, "wirelab")}
		if system == "windows" {
			b.path += ".exe"
		}
		// make build is the one place that knows the tags and flags.
		if _, err := commandWith(ctx, r.folder, r.environment(system, arch), "make", "build", "OUT="+b.path); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		info, err := os.Stat(b.path)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.out, "  %-14s %5.1f MB\n", target, float64(info.Size())/1e6)
		r.binaries = append(r.binaries, b)
	}
	if len(r.binaries) == 0 {
		return fmt.Errorf("-only %s is no target: want one of %s", r.only, strings.Join(targets, ", "))
	}
	return nil
}

// shells are the shells that wirelab completion knows, and the names that their files have.
var shells = map[string]string{"bash": "wirelab.bash", "zsh": "_wirelab", "fish": "wirelab.fish", "powershell": "wirelab.ps1"}

// document makes the man pages and the completion files in the clone.
func (r *release) document(ctx context.Context) error {
	man, completion := filepath.Join(r.folder, "man"), filepath.Join(r.folder, "completion")
	for _, folder := range []string{man, completion} {
		if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // public
			return err
		}
	}
	here := r.environment(runtime.GOOS, runtime.GOARCH)
	if _, err := commandWith(ctx, r.folder, here, "go", "test", "-trimpath", "-count=1", "-run=^TestManPages$", "./cmd/wirelab", "-man="+man); err != nil {
		return err
	}
	for shell, name := range shells {
		text, err := commandWith(ctx, r.folder, here, "go", "run", "-trimpath", "./cmd/wirelab", "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completion, name), []byte(text+"\n"), 0o644); err != nil { //nolint:gosec // public
			return err
		}
	}
	return nil
}

// archives writes a .tar.gz per system, and a .zip for Windows.
func (r *release) archives(context.Context) error {
	for _, b := range r.binaries {
		name := fmt.Sprintf("wirelab_%s_%s_%s", r.version, b.system, b.arch)
		files := map[string]string{filepath.Base(b.path): b.path}
		for _, pattern := range []string{"LICENSE", "README.md", "CHANGELOG.md", "man/*", "completion/*"} {
			found, err := filepath.Glob(filepath.Join(r.folder, pattern))
			if err != nil {
				return err
			}
			for _, path := range found {
				files[strings.TrimPrefix(path, r.folder+string(filepath.Separator))] = path
			}
		}
		write, ending := r.tarGz, ".tar.gz"
		if b.system == "windows" {
			write, ending = r.zip, ".zip"
		}
		data, err := write(name, files)
		if err != nil {
			return err
		}
		if err := r.add(b, name+ending, data); err != nil {
			return err
		}
	}
	return nil
}

// add writes a file of the release.
func (r *release) add(of binary, name string, data []byte) error {
	r.made = append(r.made, artifact{of, name, fmt.Sprintf("%x", sha256.Sum256(data))})
	return os.WriteFile(filepath.Join(r.dist, name), data, 0o644) //nolint:gosec // a release is public
}

func sortedNames(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func modeOf(name string) int64 {
	if strings.HasPrefix(filepath.Base(name), "wirelab") && (filepath.Ext(name) == "" || filepath.Ext(name) == ".exe") {
		return 0o755
	}
	return 0o644
}

func (r *release) tarGz(folder string, files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	data, err := r.tar(folder+"/", files)
	if err == nil {
		_, err = w.Write(data)
	}
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

func (r *release) tar(prefix string, files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range sortedNames(files) {
		data, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		header := tar.Header{Name: prefix + filepath.ToSlash(name), Mode: modeOf(name), Size: int64(len(data)), ModTime: r.date, Format: tar.FormatPAX}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func (r *release) zip(folder string, files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range sortedNames(files) {
		data, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		header := zip.FileHeader{Name: folder + "/" + filepath.ToSlash(name), Method: zip.Deflate, Modified: r.date}
		header.SetMode(os.FileMode(modeOf(name)))
		entry, err := w.CreateHeader(&header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

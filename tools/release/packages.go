package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing/fstest"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // each format registers itself
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"

	"wirelab.dev/tools/container"
)

const (
	homepage = "https://wirelab.dev"
	summary  = "Laboratory for RPC wire protocols"
	licence  = "Apache-2.0"
)

// archive writes a .tar.gz, or a .zip for Windows.
func (r *release) archive(p program) error {
	name := fmt.Sprintf("wirelab_%s_%s_%s", r.version, p.system, p.arch)
	tree := fstest.MapFS{}
	put := func(source, at string, mode os.FileMode) error {
		data, err := os.ReadFile(source)
		tree[path.Join(name, at)] = &fstest.MapFile{Data: data, Mode: mode}
		return err
	}
	if err := put(p.path, filepath.Base(p.path), 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"LICENSE", "README.md", "CHANGELOG.md", "man/*", "completion/*"} {
		found, err := filepath.Glob(filepath.Join(r.folder, pattern))
		if err != nil || found == nil {
			return fmt.Errorf("the commit has no %s (%w)", pattern, err)
		}
		for _, source := range found {
			if err := put(source, path.Join(path.Dir(pattern), filepath.Base(source)), 0o644); err != nil {
				return err
			}
		}
	}
	container.Settle(tree, r.date)
	var out bytes.Buffer
	if p.system == "windows" {
		w := zip.NewWriter(&out)
		if err := errors.Join(w.AddFS(tree), w.Close()); err != nil {
			return err
		}
		return r.add(name+".zip", out.Bytes())
	}
	packed, err := container.Tar(tree)
	if err != nil {
		return err
	}
	w := gzip.NewWriter(&out)
	_, err = w.Write(packed)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return r.add(name+".tar.gz", out.Bytes())
}

// packages writes a deb, an rpm and an apk.
func (r *release) packages(p program) error {
	for format, zsh := range map[string]string{"deb": "vendor-completions", "rpm": "site-functions", "apk": "site-functions"} {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		contents := files.Contents{{Source: p.path, Destination: "/usr/bin/wirelab", FileInfo: &files.ContentFileInfo{Mode: 0o755}}}
		for source, place := range map[string]string{
			"LICENSE": "doc/wirelab/copyright", "man/*": "man/man1/", "completion/wirelab.bash": "bash-completion/completions/wirelab",
			"completion/_wirelab": "zsh/" + zsh + "/_wirelab", "completion/wirelab.fish": "fish/vendor_completions.d/wirelab.fish",
		} {
			contents = append(contents, &files.Content{
				Source: filepath.Join(r.folder, source), Destination: "/usr/share/" + place, FileInfo: &files.ContentFileInfo{Mode: 0o644},
			})
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "wirelab", Arch: p.arch, Platform: "linux", Version: r.version, Section: "net", Priority: "optional",
			Maintainer: "wirelab <packages@wirelab.dev>", Vendor: "wirelab", Homepage: homepage, License: licence, MTime: r.date,
			Description:  summary + "\nCarries one service over raw TCP, REST and gRPC, loads it, watches both ends,\nand says which differences are real.",
			Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "wirelab.dev"}},
		})
		var out bytes.Buffer
		if err := errors.Join(nfpm.PrepareForPackager(info, format), packager.Package(info, &out)); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		if err := r.add(packager.ConventionalFileName(info), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// image writes the container image as a tar, without a daemon.
func (r *release) image(p program) error {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	image, err := container.Program{Text: text, Arch: p.arch, Version: r.version, Commit: r.commit, Time: r.date}.Image(r.out)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := container.Save(&out, image, "localhost/wirelab:"+r.version); err != nil {
		return err
	}
	return r.add(fmt.Sprintf("wirelab_%s_image_%s.tar", r.version, p.arch), out.Bytes())
}

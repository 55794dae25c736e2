package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // each format registers itself
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	homepage = "https://wirelab.dev"
	summary  = "Laboratory for RPC wire protocols"
	licence  = "Apache-2.0"
)

// packages writes a deb, an rpm and an apk for each Linux.
func (r *release) packages(context.Context) error {
	for _, b := range r.binaries {
		if b.system != "linux" {
			continue
		}
		contents, err := r.installed(b)
		if err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm", "apk"} {
			packager, err := nfpm.Get(format)
			if err != nil {
				return err
			}
			info := nfpm.WithDefaults(&nfpm.Info{
				Name: "wirelab", Arch: b.arch, Platform: "linux", Version: r.version, Section: "net", Priority: "optional",
				Maintainer: "wirelab <packages@wirelab.dev>", Vendor: "wirelab", Homepage: homepage, License: licence, MTime: r.date,
				Description:  summary + "\nCarries one service over raw TCP, REST and gRPC, loads it, watches both ends,\nand says which differences are real.",
				Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "wirelab.dev"}},
			})
			if err := nfpm.PrepareForPackager(info, format); err != nil {
				return fmt.Errorf("%s: %w", format, err)
			}
			var out bytes.Buffer
			if err := packager.Package(info, &out); err != nil {
				return fmt.Errorf("%s: %w", format, err)
			}
			if err := r.add(b, packager.ConventionalFileName(info), out.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// installed lists the files of a package. Man pages are compressed, as distributions want them.
func (r *release) installed(b binary) (files.Contents, error) {
	at := func(source, destination string, mode os.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.date, Owner: "root", Group: "root"}}
	}
	contents := files.Contents{
		at(b.path, "/usr/bin/wirelab", 0o755),
		at(filepath.Join(r.folder, "LICENSE"), "/usr/share/doc/wirelab/copyright", 0o644),
		at(filepath.Join(r.folder, "completion", "wirelab.bash"), "/usr/share/bash-completion/completions/wirelab", 0o644),
		at(filepath.Join(r.folder, "completion", "_wirelab"), "/usr/share/zsh/vendor-completions/_wirelab", 0o644),
		at(filepath.Join(r.folder, "completion", "wirelab.fish"), "/usr/share/fish/vendor_completions.d/wirelab.fish", 0o644),
	}
	pages, err := filepath.Glob(filepath.Join(r.folder, "man", "*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		packed, err := gzipFile(page)
		if err != nil {
			return nil, err
		}
		contents = append(contents, at(packed, "/usr/share/man/man1/"+filepath.Base(packed), 0o644))
	}
	return contents, nil
}

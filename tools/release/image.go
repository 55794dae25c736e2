package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the number of the image's user, as in deploy/Containerfile.
const user = 65532

// An entry is a folder, or a file, of the image.
type entry struct {
	path string
	mode int64
	of   int // user and group
	from string
}

// image writes an image per Linux architecture, as a tar of an OCI layout. It needs no daemon. Its
// content is the same as that of deploy/Containerfile. A tar has one image, since podman load refuses two.
func (r *release) image(context.Context) error {
	for _, b := range r.binaries {
		if b.system != "linux" {
			continue
		}
		folder := filepath.Join(filepath.Dir(r.folder), "image", b.arch)
		index, err := layout.Write(folder, empty.Index)
		if err != nil {
			return err
		}
		image, err := r.imageOf(b)
		if err != nil {
			return err
		}
		name := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "localhost/wirelab:" + r.version})
		if err := index.AppendImage(image, name, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: b.arch})); err != nil {
			return err
		}
		files := map[string]string{}
		err = filepath.WalkDir(folder, func(path string, at os.DirEntry, err error) error {
			if err == nil && at.Type().IsRegular() {
				name, err := filepath.Rel(folder, path)
				files[name] = path
				return err
			}
			return err
		})
		if err != nil {
			return err
		}
		data, err := r.tar("", files)
		if err != nil {
			return err
		}
		if err := r.add(b, fmt.Sprintf("wirelab_%s_image_%s.tar", r.version, b.arch), data); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) imageOf(b binary) (v1.Image, error) {
	content, err := r.rootfs(b)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", b.arch, v1.Time{Time: r.date}
	config.Config = imageConfig()
	config.Config.Labels["org.opencontainers.image.version"], config.Config.Labels["org.opencontainers.image.revision"] = r.version, r.commit
	return mutate.ConfigFile(image, config)
}

func imageConfig() v1.Config {
	return v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Env:        []string{"PATH=/usr/local/bin", "HOME=/var/lib/wirelab", "XDG_STATE_HOME=/var/lib/wirelab"},
		WorkingDir: "/var/lib/wirelab", Entrypoint: []string{"/usr/local/bin/wirelab"}, Cmd: []string{"--help"},
		Labels: map[string]string{"org.opencontainers.image.title": "wirelab", "org.opencontainers.image.documentation": "https://wirelab.dev/docs/fleet.md"},
	}
}

// certificates names the root certificates of this machine, for servers that no own root has signed.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// rootfs returns the image's files as a tar.
func (r *release) rootfs(b binary) ([]byte, error) {
	entries := []entry{
		{"usr/local/bin/", 0o755, 0, ""},
		{"usr/local/bin/wirelab", 0o755, 0, b.path},
		{"etc/ssl/certs/", 0o755, 0, ""},
		{"var/lib/wirelab/", 0o700, user, ""},
		{"results/", 0o755, user, ""},
		{"tmp/", 0o1777, 0, ""},
	}
	if _, err := os.Stat(certificates); err == nil {
		entries = append(entries, entry{certificates[1:], 0o644, 0, certificates})
	} else {
		fmt.Fprintf(r.out, "  %s is not here: the image has no root certificates\n", certificates)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.path, Mode: e.mode, Uid: e.of, Gid: e.of, ModTime: r.date, Typeflag: tar.TypeDir, Format: tar.FormatPAX}
		var data []byte
		if e.from != "" {
			var err error
			if data, err = os.ReadFile(e.from); err != nil {
				return nil, err
			}
			header.Typeflag, header.Size = tar.TypeReg, int64(len(data))
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// Package container makes wirelab's container image in memory, without docker and without a base
// image:
//
//	program, root certificates ──> tree of files ──> layer ──> image ──> tar, or a registry
//
// It also packs trees of files for archives. Equal trees give equal bytes. The package must not know
// where the program comes from.
package container

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the number of the image's user and group. Kubernetes can tell a number from root.
const user = 65532

// certificates names the file of root certificates on Debian and its relatives, for servers whose
// certificates are not of wirelab's own root. Go programs look there first.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// A Program holds wirelab for one architecture of Linux, and what its image says of it.
type Program struct {
	Text                  []byte
	Arch, Version, Commit string
	Time                  time.Time // of the commit
}

// Image returns the image of a program. The log says what the image lacks.
func (p Program) Image(log io.Writer) (v1.Image, error) {
	packed, err := Tar(Settle(p.files(log), p.Time))
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }, tarball.WithMediaType(types.OCILayer))
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
	config.OS, config.Architecture, config.Created = "linux", p.Arch, v1.Time{Time: p.Time}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Env:        []string{"PATH=/usr/local/bin", "HOME=/var/lib/wirelab", "XDG_STATE_HOME=/var/lib/wirelab"},
		WorkingDir: "/var/lib/wirelab", Entrypoint: []string{"/usr/local/bin/wirelab"}, Cmd: []string{"--help"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "wirelab", "org.opencontainers.image.documentation": "https://wirelab.dev/docs/fleet.md",
			"org.opencontainers.image.version": p.Version, "org.opencontainers.image.revision": p.Commit,
		},
	}
	return mutate.ConfigFile(image, config)
}

// files returns the image's files, and the folders for the state, for results and for temporary
// files, which an empty image lacks.
func (p Program) files(log io.Writer) fstest.MapFS {
	own := &tar.Header{Uid: user, Gid: user}
	tree := fstest.MapFS{
		"usr/local/bin/wirelab": {Data: p.Text, Mode: 0o755},
		"var/lib/wirelab":       {Mode: fs.ModeDir | 0o700, Sys: own},
		"results":               {Mode: fs.ModeDir | 0o755, Sys: own},
		"tmp":                   {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	if roots, err := os.ReadFile(certificates); err == nil {
		tree[certificates[1:]] = &fstest.MapFile{Data: roots, Mode: 0o644}
	} else {
		fmt.Fprintf(log, "without %s on this machine, the image has no root certificates: a NATS server of your own needs --cacert\n", certificates)
	}
	return tree
}

// Save writes an image as a tar that `docker load -i` and `podman load -i` read.
func Save(to io.Writer, image v1.Image, named string) error {
	tag, err := name.NewTag(named)
	if err != nil {
		return err
	}
	return tarball.Write(tag, image, to)
}

// Settle adds the folders that hold a tree's files, and gives all one time.
func Settle(tree fstest.MapFS, when time.Time) fstest.MapFS {
	for _, file := range slices.Collect(maps.Keys(tree)) {
		for folder := path.Dir(file); folder != "." && tree[folder] == nil; folder = path.Dir(folder) {
			tree[folder] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		}
	}
	for _, file := range tree {
		file.ModTime = when
	}
	return tree
}

// Tar packs a tree of files.
func Tar(tree fs.FS) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := errors.Join(w.AddFS(tree), w.Close())
	return out.Bytes(), err
}

package container

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"regexp"
	"testing"
	"time"
)

// Kubernetes starts no root, and an empty image has neither a shell nor a folder that nobody made.
func TestImage(t *testing.T) {
	image, err := Program{Text: []byte("program"), Arch: "arm64", Version: "1.2.3", Commit: "abc", Time: time.Unix(1e9, 0)}.Image(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(c.User) || len(c.Entrypoint) != 1 || c.Labels["org.opencontainers.image.version"] != "1.2.3" || config.Architecture != "arm64" {
		t.Errorf("the image is %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v: want one", len(layers), err)
	}
	packed, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*tar.Header{}
	for read := tar.NewReader(packed); ; {
		header, err := read.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(time.Unix(1e9, 0)) {
			t.Errorf("%s has the time %v, want the commit's", header.Name, header.ModTime)
		}
		found[header.Name] = header
	}
	for name, want := range map[string]tar.Header{
		"usr/":                  {Mode: 0o755},
		"usr/local/bin/wirelab": {Mode: 0o755},
		"var/lib/wirelab/":      {Mode: 0o700, Uid: user, Gid: user},
		"results/":              {Mode: 0o755, Uid: user, Gid: user},
		"tmp/":                  {Mode: 0o1777},
	} {
		if h := found[name]; h == nil || h.Mode != want.Mode || h.Uid != want.Uid || h.Gid != want.Gid {
			t.Errorf("%s is %+v, want %+v", name, h, want)
		}
	}
	var saved bytes.Buffer
	if err := Save(&saved, image, "not a name"); err == nil {
		t.Error("an image was saved as \"not a name\"")
	}
}

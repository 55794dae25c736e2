// Release builds everything that a release of wirelab consists of, from the last commit:
//
//	release -root .. -dist ../dist
//
//	clone of HEAD ──> man pages, completion
//	      └─────────> per target: program ──> archive, packages, image, bill of materials
//	                                            └──> checksums, formula, manifests
//
// It publishes nothing, and asks no network but Go's module proxy. What was not committed is not
// in the release. Equal commits give equal files, if the version of Go is equal.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// targets are the systems of a release. Linux is complete; docs/install.md says what works elsewhere.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() {
	root := flag.String("root", "..", "`folder` of the repository")
	dist := flag.String("dist", "../dist", "new `folder` for the release")
	only := flag.String("only", "", "make a single `target`, as in linux/amd64, without formula and manifests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *root, *dist, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, dist, only string) error {
	wanted := targets
	if only != "" {
		wanted = []string{only}
	}
	if only != "" && !slices.Contains(targets, only) {
		return fmt.Errorf("-only %s is no target: want one of %s", only, strings.Join(targets, ", "))
	}
	if err := os.Mkdir(dist, 0o755); err != nil { //nolint:gosec // a release is public
		return fmt.Errorf("-dist: %w: remove what is there, or choose another folder", err)
	}
	temporary, err := os.MkdirTemp("", "wirelab-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }() // of this run
	r := release{dist: dist, sums: map[string]string{}, out: os.Stdout}
	if r.source, err = clone(ctx, root, temporary); err != nil {
		return fmt.Errorf("clone the commit: %w", err)
	}
	fmt.Fprintf(r.out, "wirelab %s of commit %.12s\n", r.version, r.commit)
	if err := r.document(ctx); err != nil {
		return fmt.Errorf("man pages and completion: %w", err)
	}
	for _, target := range wanted {
		p, err := r.build(ctx, target)
		if err == nil {
			err = r.pack(p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	if err := r.finish(only == ""); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "the release is in %s; nothing was published\n", dist)
	return nil
}

// A release is made from a source, into a folder.
type release struct {
	source
	dist string
	sums map[string]string // the SHA-256 of each file, by its name
	out  io.Writer         // says what is made
}

// add writes a file of the release.
func (r *release) add(name string, data []byte) error {
	r.sums[name] = fmt.Sprintf("%x", sha256.Sum256(data))
	fmt.Fprintf(r.out, "  %5.1f MB  %s\n", float64(len(data))/1e6, name)
	return os.WriteFile(filepath.Join(r.dist, name), data, 0o644) //nolint:gosec // a release is public
}

// pack writes all files of the release that hold a program.
func (r *release) pack(p program) error {
	if err := r.archive(p); err != nil {
		return err
	}
	if p.system == "linux" {
		if err := r.packages(p); err != nil {
			return err
		}
		if err := r.image(p); err != nil {
			return err
		}
	}
	return r.materials(p)
}

// Release builds everything that a release of wirelab consists of, from the last commit:
//
//	release -root .. -dist ../dist
//
//	clone of HEAD ──> programs ──> archives, packages, image ──> checksums ──> formula, manifests
//
// It publishes nothing, and asks no network but Go's module proxy. What was not committed is not
// in the release. Equal commits give equal files, if the version of Go is equal.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	var r release
	flag.StringVar(&r.root, "root", "..", "`folder` of the repository")
	flag.StringVar(&r.dist, "dist", "../dist", "`folder` for the release, which is emptied first")
	flag.StringVar(&r.only, "only", "", "make a single `target`, as in linux/amd64, without packages of other systems")
	flag.Parse()
	r.out = os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.make(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is what to build, and where.
type release struct {
	root, dist, only string
	source           // the clone
	binaries         []binary
	made             []artifact
	out              io.Writer // says what is made
}

func (r *release) make(ctx context.Context) error {
	for _, folder := range []*string{&r.root, &r.dist} {
		absolute, err := filepath.Abs(*folder)
		if err != nil {
			return err
		}
		*folder = absolute
	}
	if err := emptyFolder(r.dist); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "wirelab-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }() // of this run
	if r.source, err = clone(ctx, r.root, temporary); err != nil {
		return fmt.Errorf("clone the commit: %w", err)
	}
	fmt.Fprintf(r.out, "wirelab %s of commit %.12s\n", r.version, r.commit)
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"programs", r.build},
		{"man pages and completion", r.document},
		{"archives", r.archives},
		{"packages", r.packages},
		{"image", r.image},
		{"bill of materials", r.materials},
		{"checksums", r.checksums},
		{"formula and manifests", r.manifests},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return r.list()
}

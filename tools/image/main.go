// Image builds wirelab's container image with docker, podman or buildah, and writes its name into
// the files of deploy:
//
//	image -registry registry.example.com/team -push
//
// The image needs no base image, so it can be built without a registry. Its tag is the commit. Only
// a registry decides the digest of an image, so the files have a digest only with -push. The name
// goes to standard output, for scripts, and all else to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	var i image
	flag.StringVar(&i.registry, "registry", "", "the `registry` and folder of the image, as in registry.example.com/team")
	flag.BoolVar(&i.push, "push", false, "push the image, and write its digest")
	flag.BoolVar(&i.write, "write", true, "write the image's name into the files of deploy")
	flag.StringVar(&i.root, "root", "..", "`folder` of the repository")
	flag.Parse()
	syscall.Umask(0o022) // the modes of the image's files are not those of the user's files
	i.out, i.log = os.Stdout, os.Stderr
	if err := i.make(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// An image is what to build and where to name it.
type image struct {
	registry, root string
	push, write    bool
	out, log       io.Writer
}

func (i *image) make(ctx context.Context) error {
	if err := checkRegistry(i.registry); err != nil {
		return err
	}
	builder, err := findEngine(ctx)
	if err != nil {
		return err
	}
	builder.log = i.log
	files, err := manifests(filepath.Join(i.root, "deploy"))
	if err != nil {
		return err
	}
	source, err := openSource(ctx, i.root, files)
	if err != nil {
		return fmt.Errorf("read the commit: %w", err)
	}
	defer source.close()
	folder, err := os.MkdirTemp("", "wirelab-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // of this run
	made, err := source.build(ctx, folder, i.log)
	if err != nil {
		return err
	}
	name := i.registry + "/wirelab:" + made.tag
	if err := builder.build(ctx, name, filepath.Join(i.root, "deploy", "Containerfile"), folder, made.seconds); err != nil {
		return err
	}
	fmt.Fprintf(i.log, "built %s with %s\n", name, builder.program)
	if i.push {
		digest, err := builder.push(ctx, name)
		if err != nil {
			return err
		}
		name += "@" + digest
		fmt.Fprintf(i.log, "pushed the image; its digest is %s\n", digest)
	} else {
		fmt.Fprintln(i.log, "the image has no digest yet, since no registry has it: PUSH=1 pushes it and writes the digest beside the tag")
	}
	if i.write {
		count, err := writeName(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(i.log, "wrote the image's name into %d places of deploy\n", count)
	}
	_, err = fmt.Fprintln(i.out, name)
	return err
}

// registryForm matches a host, perhaps with a port, and folders, as in the reference grammar of
// github.com/distribution/reference.
var registryForm = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)*$`)

func checkRegistry(registry string) error {
	const example = "as in `make image REGISTRY=registry.example.com/team PUSH=1` (REGISTRY=localhost, without PUSH, is for this machine alone)"
	switch {
	case registry == "":
		return errors.New("REGISTRY is empty: say where the image belongs, " + example)
	case !registryForm.MatchString(registry):
		return fmt.Errorf("REGISTRY=%s is not HOST[:PORT][/FOLDER] in small letters: leave out https://, a tag and a slash at the end, %s", registry, example)
	}
	return nil
}

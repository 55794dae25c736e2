// Image makes wirelab's container image, gives it to docker or podman, or pushes it to a registry,
// and writes its name into the files of deploy:
//
//	image -registry registry.example.com/team -push
//
// The image needs no base image and no daemon (package container). Its tag is the commit. Docker and
// podman may compress an image again, so the files have a digest only with -push. The name goes to
// standard output, for scripts, and all else to standard error.
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
)

func main() {
	var i image
	flag.StringVar(&i.registry, "registry", "", "the `registry` and folder of the image, as in registry.example.com/team")
	flag.BoolVar(&i.push, "push", false, "push the image, and write its digest")
	flag.BoolVar(&i.write, "write", true, "write the image's name into the files of deploy")
	flag.StringVar(&i.root, "root", "..", "`folder` of the repository")
	flag.Parse()
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
	engine := ""
	if !i.push {
		var err error
		if engine, err = findEngine(ctx); err != nil {
			return err
		}
	}
	files, err := manifests(filepath.Join(i.root, "deploy"))
	if err != nil {
		return err
	}
	source, err := openSource(ctx, i.root, files)
	if err != nil {
		return fmt.Errorf("read the commit: %w", err)
	}
	defer source.close()
	made, err := source.build(ctx, i.log)
	if err != nil {
		return err
	}
	image, err := made.Image(i.log)
	if err != nil {
		return err
	}
	name := i.registry + "/wirelab:" + made.Version
	if i.push {
		digest, err := push(ctx, name, image)
		if err != nil {
			return err
		}
		name += "@" + digest
		fmt.Fprintf(i.log, "pushed the image; its digest is %s\n", digest)
	} else {
		if err := load(ctx, engine, name, image, i.log); err != nil {
			return err
		}
		fmt.Fprintf(i.log, "gave the image to %s; no registry has it, so it has no digest yet: PUSH=1 pushes it and writes the digest beside the tag\n", engine)
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

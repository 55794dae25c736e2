// Command generate writes the files that are made from others and committed: the
// Go code of every .proto file, the names of system calls, and web/dist, the report
// page's program and style.
//
//	go -C tools run ./generate          # write
//	go -C tools run ./generate -check   # fail if a file on disk is not what would be written
//
// For the page it needs npm. Without npm, -check leaves the page out and says so.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", "..", "`folder` of the repository")
	check := flag.Bool("check", false, "compare with the files on disk instead of writing them")
	flag.Parse()

	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	files, err := generateGo(ctx, root)
	if err != nil {
		return err
	}
	names, err := generateSyscalls(ctx, root)
	if err != nil {
		return err
	}
	maps.Copy(files, names)
	page, failed := buildPage(ctx, filepath.Join(root, "web"))
	if check && errors.Is(failed, errNoPackages) {
		fmt.Fprintln(os.Stderr, "generate: web/dist was not compared with web/src:", failed)
		failed = nil
	}
	for name, content := range page {
		files["web/dist/"+name] = content
	}
	if check {
		return errors.Join(failed, compare(root, files))
	}
	return errors.Join(failed, write(root, files)) // without npm, the Go code is still written
}

// write writes files, which are named by their paths below root.
func write(root string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare returns an error that names every file that is missing on disk, has
// another content, or is Go code of a .proto file that is gone.
func compare(root string, files map[string][]byte) error {
	differ, err := findFiles(root, ".pb.go")
	if err != nil {
		return fmt.Errorf("look for generated files: %w", err)
	}
	differ = slices.DeleteFunc(differ, func(name string) bool { return files[name] != nil })
	for _, name := range slices.Sorted(maps.Keys(files)) {
		onDisk, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if !bytes.Equal(onDisk, files[name]) {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("these files are not what their sources give; run make generate:\n\t%s", strings.Join(differ, "\n\t"))
	}
	return nil
}

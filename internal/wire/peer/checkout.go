package peer

import (
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wirelab.dev/internal/base/pattern"
)

// outputName stands in a build step for the path of the program.
const outputName = "OUTPUT"

// ownModule is the first line of the go.mod of wirelab's own source.
var ownModule = pattern.Lazy(`(?m)^module wirelab\.dev\s*$`)

// findCheckout returns the folder of wirelab's own source: the working directory, or the nearest
// folder above it.
func findCheckout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find wirelab's own source: %w", err)
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && ownModule().Match(text) {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("neither %s nor a folder above it has wirelab's source (a go.mod with `module wirelab.dev`): run wirelab in a clone of its repository", start)
		}
	}
}

// hashCheckout adds the source files that a program of wirelab's own module can contain to sum.
func hashCheckout(root, module string, sum hash.Hash) error {
	skip := func(path string, entry fs.DirEntry) bool {
		name := entry.Name()
		if !entry.IsDir() {
			return strings.HasSuffix(name, "_test.go") || !entry.Type().IsRegular()
		}
		_, err := os.Stat(filepath.Join(path, "go.mod")) // another module
		own := slices.Contains([]string{filepath.Join(root, "rpc"), filepath.Join(root, module)}, path)
		return name == "testdata" || err == nil && !own
	}
	for _, name := range []string{"go.mod", "go.sum", "internal", "rpc", "peers"} {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case skip(path, entry) && entry.IsDir():
				return fs.SkipDir
			case skip(path, entry) || entry.IsDir():
				return nil
			}
			return hashFile(root, path, sum)
		})
		if err != nil {
			return fmt.Errorf("read wirelab's own source: %w", err)
		}
	}
	return nil
}

func hashFile(root, path string, sum hash.Hash) error {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%s %d\n", name, info.Size())
	_, err = io.Copy(sum, file)
	return err
}

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// manifests returns the files of deploy that may name the image. The tests of deploy have none.
func manifests(deploy string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(deploy, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "check":
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".yaml":
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// reference matches a line that names wirelab's image, in any registry, by tag, digest or both.
var reference = regexp.MustCompile(`(?m)^([ \t]*(?:- )?image:[ \t]*)["']?(?:\S*/)?wirelab(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?["']?([ \t]*(?:#.*)?)$`)

// writeName writes the image's name into the files, and returns the number of places that have it.
func writeName(files []string, name string) (places int, err error) {
	for _, path := range files {
		old, err := os.ReadFile(path)
		if err != nil {
			return places, err
		}
		places += len(reference.FindAll(old, -1))
		text := reference.ReplaceAllString(string(old), "${1}"+strings.ReplaceAll(name, "$", "$$")+"${2}")
		if text == string(old) {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // not a secret; the file exists, and keeps its mode
			return places, err
		}
	}
	if places == 0 {
		return 0, fmt.Errorf("no line `image: …/wirelab` in %d files of deploy: write the name into them by hand: %s", len(files), name)
	}
	return places, nil
}

package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// templates holds the Homebrew formula and the winget manifest, in the folders that they have in a release.
//
//go:embed templates
var templates embed.FS

// finish writes the sums in the form that sha256sum -c reads, and, if all targets were made, the
// formula and the manifest with the sums of the archives.
func (r *release) finish(all bool) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		text.WriteString(r.sums[name] + "  " + name + "\n")
	}
	if err := os.WriteFile(filepath.Join(r.dist, "SHA256SUMS"), []byte(text.String()), 0o644); err != nil || !all { //nolint:gosec // public
		return err
	}
	data := map[string]any{
		"version": r.version, "homepage": homepage, "summary": summary, "licence": licence, "date": r.date.Format("2006-01-02"),
		"archives": homepage + "/releases/v" + r.version + "/wirelab_" + r.version,
	}
	sum := func(ending string) (string, error) {
		name := "wirelab_" + r.version + "_" + ending
		if r.sums[name] == "" {
			return "", fmt.Errorf("the release has no %s", name)
		}
		return r.sums[name], nil
	}
	return fs.WalkDir(templates, "templates", func(path string, entry fs.DirEntry, err error) error {
		place := filepath.Join(r.dist, strings.TrimPrefix(path, "templates"))
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(place, 0o755)) //nolint:gosec // public
		}
		parsed, err := template.New(entry.Name()).Funcs(template.FuncMap{"sum": sum}).ParseFS(templates, path)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, data); err != nil {
			return err
		}
		return os.WriteFile(place, text.Bytes(), 0o644) //nolint:gosec // public
	})
}

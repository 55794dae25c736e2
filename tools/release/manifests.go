package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// places names where each template's result belongs in the release.
var places = map[string]string{
	"wirelab.rb":                        "wirelab.rb", // Homebrew
	"Wirelab.Wirelab.yaml":              "winget/Wirelab.Wirelab.yaml",
	"Wirelab.Wirelab.installer.yaml":    "winget/Wirelab.Wirelab.installer.yaml",
	"Wirelab.Wirelab.locale.en-US.yaml": "winget/Wirelab.Wirelab.locale.en-US.yaml",
}

// checksums writes the SHA-256 of each file, in the form that sha256sum -c reads.
func (r *release) checksums(context.Context) error {
	var text strings.Builder
	for _, a := range r.made {
		fmt.Fprintf(&text, "%s  %s\n", a.sum, a.name)
	}
	return os.WriteFile(filepath.Join(r.dist, "SHA256SUMS"), []byte(text.String()), 0o644) //nolint:gosec // public
}

// manifests writes the Homebrew formula and the winget manifest, with the sums of the archives.
func (r *release) manifests(context.Context) error {
	if r.only != "" {
		return nil // they need the archives of all systems
	}
	sum := func(system, arch string) (string, error) {
		for _, a := range r.made {
			if a.system == system && a.arch == arch && (strings.HasSuffix(a.name, ".tar.gz") || strings.HasSuffix(a.name, ".zip")) {
				return a.sum, nil
			}
		}
		return "", fmt.Errorf("there is no archive for %s/%s", system, arch)
	}
	parsed, err := template.New("").Funcs(template.FuncMap{"sum": sum, "upper": strings.ToUpper}).ParseFS(templates, "templates/*")
	if err != nil {
		return err
	}
	data := map[string]string{
		"Version": r.version, "Homepage": homepage, "Summary": summary, "Licence": licence, "Date": r.date.Format("2006-01-02"),
		"Download": homepage + "/releases/v" + r.version, // the archives' place
	}
	for name, place := range places {
		var text bytes.Buffer
		if err := parsed.ExecuteTemplate(&text, name, data); err != nil {
			return err
		}
		path := filepath.Join(r.dist, place)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text.Bytes(), 0o644)); err != nil { //nolint:gosec // public
			return err
		}
	}
	return nil
}

// list prints what was made.
func (r *release) list() error {
	for _, a := range r.made {
		info, err := os.Stat(filepath.Join(r.dist, a.name))
		if err != nil {
			return err
		}
		fmt.Fprintf(r.out, "  %6.1f MB  %s\n", float64(info.Size())/1e6, a.name)
	}
	fmt.Fprintf(r.out, "the release is in %s; nothing was published\n", r.dist)
	return nil
}

// gzipFile compresses a file beside itself, and returns the path.
func gzipFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	_, err = w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	return path + ".gz", os.WriteFile(path+".gz", out.Bytes(), 0o644) //nolint:gosec // public
}

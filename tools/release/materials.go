package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A component is a part of the program, in the form of CycloneDX 1.6.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

// materials writes a bill of materials in CycloneDX's form: the modules that are linked into a
// program, as the toolchain noted them in it, and the libraries in the report page.
func (r *release) materials(context.Context) error {
	pages, err := r.pageLibraries()
	if err != nil {
		return err
	}
	for _, b := range r.binaries {
		info, err := buildinfo.ReadFile(b.path)
		if err != nil {
			return err
		}
		parts := []component{{"library", "std", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
		for _, m := range info.Deps {
			parts = append(parts, component{"library", m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version})
		}
		id := sha256.Sum256([]byte(r.commit + b.system + b.arch))
		document := map[string]any{
			"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
			"serialNumber": fmt.Sprintf("urn:uuid:%x-%x-5%x-8%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]),
			"metadata": map[string]any{
				"timestamp": r.date.Format("2006-01-02T15:04:05Z"),
				"component": component{"application", "wirelab.dev/cmd/wirelab", r.version, "pkg:golang/wirelab.dev@v" + r.version + "#cmd/wirelab"},
			},
			"components": append(parts, pages...),
		}
		data, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		if err := r.add(b, fmt.Sprintf("wirelab_%s_%s_%s.cdx.json", r.version, b.system, b.arch), append(data, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// pageLibraries reads which libraries are in the report page.
func (r *release) pageLibraries() ([]component, error) {
	text, err := os.ReadFile(filepath.Join(r.folder, "web", "package.json"))
	if err != nil {
		return nil, err
	}
	var read struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("web/package.json: %w", err)
	}
	var parts []component
	for _, name := range sortedNames(read.Dependencies) {
		parts = append(parts, component{"library", name, read.Dependencies[name], "pkg:npm/" + name + "@" + read.Dependencies[name]})
	}
	return parts, nil
}

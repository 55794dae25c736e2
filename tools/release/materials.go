package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
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
func (r *release) materials(p program) error {
	info, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return err
	}
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "vcs.modified", Value: "true"}) {
		return errors.New("the program notes that its source differed from the commit: the clone has new files; ignore or remove them")
	}
	parts := []component{library("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		parts = append(parts, library("golang", m.Path, m.Version))
	}
	text, err := os.ReadFile(filepath.Join(r.folder, "web", "package.json"))
	if err != nil {
		return err
	}
	var page struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &page); err != nil {
		return fmt.Errorf("web/package.json: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(page.Dependencies)) {
		parts = append(parts, library("npm", name, page.Dependencies[name]))
	}
	id := sha256.Sum256([]byte(r.commit + p.system + p.arch))
	data, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"serialNumber": fmt.Sprintf("urn:uuid:%x-%x-5%x-8%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		"metadata": map[string]any{
			"timestamp": r.date.Format("2006-01-02T15:04:05Z"),
			"component": component{"application", "wirelab.dev/cmd/wirelab", r.version, "pkg:golang/wirelab.dev@v" + r.version + "#cmd/wirelab"},
		},
		"components": parts,
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.add(fmt.Sprintf("wirelab_%s_%s_%s.cdx.json", r.version, p.system, p.arch), append(data, '\n'))
}

func library(registry, name, version string) component {
	return component{"library", name, version, "pkg:" + registry + "/" + name + "@" + version}
}

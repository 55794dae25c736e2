// Package schema holds the schemas of what wirelab's commands print with --json, for the program to
// carry with it. Tests make the files from the Go types, and compare them with real output.
package schema

import "embed"

//go:embed *.schema.json
var files embed.FS

// Read returns the schema with this name, as in "compare".
func Read(name string) ([]byte, error) { return files.ReadFile(name + ".schema.json") }

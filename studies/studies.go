// Package studies holds the published studies as scenarios, one file each, for
// the program to carry with it.
//
// The files are data: package scenario reads them. This package must not know
// what is in them.
package studies

import "embed"

// FS holds the studies, each as NAME.yaml.
//
//go:embed *.yaml
var FS embed.FS

// Package studies holds the published studies as scenarios, one file each, for
// the program to carry with it.
//
// Beside them are the figures that were published, one file a study with one row per figure;
// where a figure has a note, such as that it contradicts another, the note stands there.
//
// The files are data: packages scenario and claim read them. This package must not know
// what is in them.
package studies

import "embed"

// FS holds the studies, each as NAME.yaml, and what was published as published/NAME.csv.
//
//go:embed *.yaml published/*.csv
var FS embed.FS

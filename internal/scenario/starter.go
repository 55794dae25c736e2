package scenario

import (
	_ "embed" // for the starter
	"slices"
)

//go:embed starter.yaml
var starter []byte

// Starter is a small scenario file with comments, to begin one's own from. It
// takes less than a minute to measure.
func Starter() []byte { return slices.Clone(starter) }

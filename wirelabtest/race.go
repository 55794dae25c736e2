//go:build race

package wirelabtest

const raceDetector = true

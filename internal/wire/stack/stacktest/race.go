//go:build race

package stacktest

const raceDetector = true

//go:build race

package httpwire

const raceDetector = true

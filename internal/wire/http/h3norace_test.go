//go:build !race

package httpwire

const raceDetector = false

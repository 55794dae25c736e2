//go:build !race

package stacktest

import "time"

const raceDetector = false

// patience bounds whatever a check waits for. Only a failing check comes near.
const patience = 5 * time.Second

//go:build race

package stacktest

import "time"

const raceDetector = true

// patience is longer here: the detector makes QUIC's 15 MiB take seconds.
const patience = 20 * time.Second

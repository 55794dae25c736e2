package record

import "time"

// An AnchorReading is one measurement of the anchor: a short fixed cell (tcp, 64 B, 16 clients) that
// every run of a machine measures before, between and after its trials. Readings of two runs show
// how much faster or slower the machine itself was.
type AnchorReading struct {
	Started time.Time `json:"started"`
	Clients int       `json:"clients"`
	MeanNS  float64   `json:"mean_ns"`          // mean time of a call
	CPUNS   float64   `json:"cpu_ns,omitempty"` // CPU time per call of both ends; absent if unknown
}

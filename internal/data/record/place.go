package record

import (
	"cmp"
	"fmt"

	"wirelab.dev/internal/base/units"
)

// A Place says where in a part of the matrix variants stand side by side. All that is
// found of one place embeds it, so that places are compared with ==.
type Place struct {
	Workload string `json:"workload"` // the service that was called
	Payload
	Clients int `json:"clients"` // concurrent ones
}

// Key names what a variant of a part did here, as in `matrix/tcp:buffers=pooled/echo/64B/c=50`.
func (p Place) Key(part, variant string) string {
	return fmt.Sprintf("%s/%s/%s/%s/c=%d", part, variant, p.Workload, p.Payload.Key(), p.Clients)
}

// Compare orders places by payload and then by clients.
func (p Place) Compare(other Place) int {
	return cmp.Or(p.Payload.Compare(other.Payload), cmp.Compare(p.Clients, other.Clients))
}

// A Payload holds the payload sizes of one request and its response. It is zero if the
// workload decides.
type Payload struct {
	RequestBytes  int `json:"request_bytes"`  // of payload
	ResponseBytes int `json:"response_bytes"` // of payload
}

// Compare orders payloads by their requests, and then by their responses.
func (p Payload) Compare(other Payload) int {
	return cmp.Or(cmp.Compare(p.RequestBytes, other.RequestBytes), cmp.Compare(p.ResponseBytes, other.ResponseBytes))
}

// Text writes the size of the messages, and both with the separator where they differ.
func (p Payload) Text(size func(bytes int) string, separator string) string {
	if p.RequestBytes == p.ResponseBytes {
		return size(p.RequestBytes)
	}
	return size(p.RequestBytes) + separator + size(p.ResponseBytes)
}

// Key writes the payload as the names of cells have it: 64B, or 64B-4KiB.
func (p Payload) Key() string {
	return p.Text(func(bytes int) string { return units.Bytes(bytes, "") }, "-")
}

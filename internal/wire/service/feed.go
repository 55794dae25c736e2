package service

// A Feed holds the templates of requests that are made while calls are sent.
type Feed struct {
	// Requests have templates: the path, the values of the header, and the body, which is
	// JSON for a call of gRPC.
	Requests []Request `json:"requests"`
	Rows     Rows      `json:"rows,omitzero"`
	Random   bool      `json:"random,omitempty"` // which request and row is next; otherwise in turn
	// Descriptors describes the messages of gRPC, as schema.Method.Files returns it;
	// empty: the requests are of HTTP.
	Descriptors []byte `json:"descriptors,omitempty"`
}

// Rows holds data for templates.
type Rows struct {
	Columns []string   `json:"columns"`
	Values  [][]string `json:"values"` // row by row
}

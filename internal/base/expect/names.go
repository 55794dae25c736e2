package expect

import (
	"slices"

	"google.golang.org/grpc/codes"
)

// Usable says what an expression may use, for help texts and errors.
const Usable = `status, code (of gRPC, as in code == OK), size, latency (as in latency < 20ms), body, json(.path[0].name), header("Name"), and contains, matches, startsWith, in, and, or, not`

// functions are those of the expression language that an expression may use beside its own.
var functions = []string{
	"len", "all", "any", "none", "one", "count", "filter", "map", "sum", "first", "last", "keys", "values",
	"min", "max", "abs", "int", "float", "string", "lower", "upper", "trim", "duration",
}

// specNames are the codes as the specification of gRPC writes them.
var specNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// codeName is the name of a code, as Go writes it, by either of its names.
func codeName(written string) (name string, is bool) {
	if i := slices.Index(specNames[:], written); i >= 0 {
		return codes.Code(i).String(), true
	}
	for i := range specNames {
		if name := codes.Code(i).String(); name == written {
			return name, true
		}
	}
	return "", false
}

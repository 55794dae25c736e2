package expect

import (
	"slices"

	"google.golang.org/grpc/codes"
)

// Usable lists the names that an expression may use, for help texts and errors.
const Usable = `status, code (of gRPC, as in code == OK), size, latency (as in latency < 20ms), body, json(.path[0].name), header("Name"), and contains, matches, startsWith, in, and, or, not`

// functions lists the functions of the expression language that an expression may use.
var functions = []string{
	"len", "all", "any", "none", "one", "count", "filter", "map", "sum", "first", "last", "keys", "values",
	"min", "max", "abs", "int", "float", "string", "lower", "upper", "trim", "duration",
}

// specNames holds the codes by their names in the specification of gRPC.
var specNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// codeName returns Go's name of a code by either of its names.
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

package rest

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"wirelab.dev/internal/stack"
)

// shortPath is the path of an operation as a user of curl types it: /echo for
// Echo, /get-user for GetUser, /get-http-info for GetHTTPInfo.
func shortPath(operation string) string {
	var path strings.Builder
	path.Grow(len(operation) + 4)
	path.WriteByte('/')
	letters := []rune(operation)
	for i, letter := range letters {
		if unicode.IsUpper(letter) && i > 0 {
			previous := letters[i-1]
			endsAcronym := unicode.IsUpper(previous) && i+1 < len(letters) && unicode.IsLower(letters[i+1])
			if unicode.IsLower(previous) || unicode.IsDigit(previous) || endsAcronym {
				path.WriteByte('-')
			}
		}
		path.WriteRune(unicode.ToLower(letter))
	}
	return path.String()
}

// pathOf is the short path for a full name, "/package.Service/Operation".
func pathOf(fullName string) (string, error) {
	slash := strings.LastIndexByte(fullName, '/')
	if slash < 1 || fullName[0] != '/' || slash == len(fullName)-1 {
		return "", fmt.Errorf("%q is not of the form /package.Service/Operation", fullName)
	}
	return shortPath(fullName[slash+1:]), nil
}

// shortPaths maps each short path to its method. Two operations that would
// share one are an error, since curl could not tell them apart.
func shortPaths(methods []*stack.Method) (map[string]*stack.Method, error) {
	paths := make(map[string]*stack.Method, len(methods))
	var clashes []error
	for _, method := range methods {
		path := shortPath(method.Name())
		if first, taken := paths[path]; taken {
			clashes = append(clashes, fmt.Errorf("operations %s and %s would both be served at %s", first.FullName, method.FullName, path))
			continue
		}
		paths[path] = method
	}
	return paths, errors.Join(clashes...)
}

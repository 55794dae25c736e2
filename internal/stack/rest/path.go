package rest

import (
	"errors"
	"fmt"
	"strings"

	"wirelab.dev/internal/route"
	"wirelab.dev/internal/stack"
)

// pathOf returns the short path of a full name, "/package.Service/Operation".
func pathOf(fullName string) (string, error) {
	slash := strings.LastIndexByte(fullName, '/')
	if slash < 1 || fullName[0] != '/' || slash == len(fullName)-1 {
		return "", fmt.Errorf("%q is not of the form /package.Service/Operation", fullName)
	}
	return route.ShortPath(fullName[slash+1:]), nil
}

// shortPaths maps each short path to its method. Two operations with the same short
// path are an error.
func shortPaths(methods []*stack.Method) (map[string]*stack.Method, error) {
	paths := make(map[string]*stack.Method, len(methods))
	var clashes []error
	for _, method := range methods {
		path := route.ShortPath(method.Name())
		if first, taken := paths[path]; taken {
			clashes = append(clashes, fmt.Errorf("operations %s and %s would both be served at %s", first.FullName, method.FullName, path))
			continue
		}
		paths[path] = method
	}
	return paths, errors.Join(clashes...)
}

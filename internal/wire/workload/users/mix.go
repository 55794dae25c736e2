package users

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/spelling"
)

// An operation is one of the service's operations.
type operation int

const (
	getUser operation = iota
	getUsers
	createSmall
	createLarge
)

var operationNames = [...]string{getUser: "get-user", getUsers: "get-users", createSmall: "create-small", createLarge: "create-large"}

// A mix is a list of operations with their weights.
type mix []weighted

type weighted struct {
	operation operation
	weight    int
}

// maxWeight keeps the sum of all weights from overflowing.
const maxWeight = 1_000_000

// parseMix parses OP*WEIGHT+OP*WEIGHT. The default weight is 1.
func parseMix(text string) (mix, error) {
	var m mix
	for part := range strings.SplitSeq(text, "+") {
		name, times, given := strings.Cut(part, "*")
		one := weighted{weight: 1}
		if one.operation = operation(slices.Index(operationNames[:], name)); one.operation < 0 {
			return nil, fmt.Errorf("%q: %s", name, spelling.Suggest(name, operationNames[:]))
		}
		if given {
			var err error
			one.weight, err = strconv.Atoi(times)
			if err != nil || one.weight < 1 || one.weight > maxWeight {
				return nil, fmt.Errorf("%q: the weight is a whole number from 1 to %d, as in get-user*8", part, maxWeight)
			}
		}
		if slices.ContainsFunc(m, func(other weighted) bool { return other.operation == one.operation }) {
			return nil, fmt.Errorf("%s occurs twice: give each operation once", name)
		}
		m = append(m, one)
	}
	return m, nil
}

// String returns the mix in the form that parseMix reads.
func (m mix) String() string {
	parts := make([]string, len(m))
	for i, one := range m {
		parts[i] = fmt.Sprintf("%s*%d", operationNames[one.operation], one.weight)
	}
	return strings.Join(parts, "+")
}

// draw picks an operation by weight.
func (m mix) draw(random *rand.Rand) operation {
	if len(m) == 1 {
		return m[0].operation
	}
	total := 0
	for _, one := range m {
		total += one.weight
	}
	at := random.IntN(total)
	for _, one := range m {
		if at -= one.weight; at < 0 {
			return one.operation
		}
	}
	panic("users: the weights do not add up")
}

package fleet

import (
	"fmt"
)

// assembly puts a message together that comes in parts, in their order.
type assembly struct {
	have []byte
	next int // the part that comes next, less one
}

// mostKeptBytes bounds a message with all its parts.
const mostKeptBytes = 64 << 20

// add adds a part, as in 2/3, and returns the whole after the last.
func (a *assembly) add(part string, data []byte) (whole []byte, done bool, err error) {
	var number, of int
	if _, err := fmt.Sscanf(part, "%d/%d", &number, &of); err != nil || number < 1 || number > of {
		return nil, false, fmt.Errorf("its part %.20q: want one as in 2/3", part)
	}
	if number == 1 {
		*a = assembly{}
	}
	if number != a.next+1 {
		return nil, false, fmt.Errorf("part %d of %d came after part %d", number, of, a.next)
	}
	if len(a.have)+len(data) > mostKeptBytes {
		return nil, false, fmt.Errorf("it is longer than %d MiB", mostKeptBytes>>20)
	}
	a.have, a.next = append(a.have, data...), number
	if number < of {
		return nil, false, nil
	}
	whole = a.have
	*a = assembly{}
	return whole, true, nil
}

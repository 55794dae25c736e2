package load

import "wirelab.dev/internal/data/record"

// An Answered is a Caller whose answers have a status. Status returns that of the last call's
// answer, and false if there was none.
type Answered interface {
	Status() (status int, answered bool)
}

// statuses counts answers by their status. There are few, and one is much more frequent than
// others, so that a list is faster than a map.
type statuses []record.StatusCount

func (s *statuses) count(status int) {
	for i := range *s {
		if (*s)[i].Status == status {
			(*s)[i].Count++
			return
		}
	}
	*s = append(*s, record.StatusCount{Status: status, Count: 1})
}

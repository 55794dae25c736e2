package rpccall

// A Queue holds the messages that a call has received and not read, oldest first. It has
// memory for the one message of most calls. Its owner guards it. A Queue that is not empty
// must not be copied.
type Queue[M any] struct {
	items []M
	first [1]M
}

// Len returns the number of messages.
func (q *Queue[M]) Len() int { return len(q.items) }

// Put adds a message.
func (q *Queue[M]) Put(m M) {
	if q.items == nil {
		q.items = q.first[:0]
	}
	q.items = append(q.items, m)
}

// Take removes the oldest message. ok is false if there is none.
func (q *Queue[M]) Take() (m M, ok bool) {
	if len(q.items) == 0 {
		return m, false
	}
	var none M
	m, q.items[0] = q.items[0], none
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items, q.first[0] = nil, none // first may hold what was copied to a longer queue
	}
	return m, true
}

// First returns the oldest message, which the caller may change. There must be one.
func (q *Queue[M]) First() *M { return &q.items[0] }

// Last returns the newest message, which the caller may change, or nil if there is none.
func (q *Queue[M]) Last() *M {
	if len(q.items) == 0 {
		return nil
	}
	return &q.items[len(q.items)-1]
}

package users

import (
	"sync"

	"wirelab.dev/internal/workload/users/userspb"
)

// keptNewcomers is how many of the users that were created the book remembers:
// a back end that is asked for ten thousand new users a second would else be
// measured by its memory. The oldest one is forgotten, and may be created again.
const keptNewcomers = 1000

// book is all users, by id and in the order in which they came. Users in it are
// never written to. Any goroutine may use it.
type book struct {
	mu        sync.RWMutex
	byID      map[string]*userspb.User
	emails    map[string]bool
	residents []*userspb.User // from the beginning
	newcomers []*userspb.User // a ring, once it is full
	oldest    int             // in the ring
}

func newBook(residents []*userspb.User) *book {
	b := &book{
		byID:      make(map[string]*userspb.User, len(residents)+keptNewcomers),
		emails:    make(map[string]bool, len(residents)+keptNewcomers),
		residents: residents,
	}
	for _, u := range residents {
		b.byID[u.Id], b.emails[u.Email] = u, true
	}
	return b
}

// find returns the user of that id, or nil.
func (b *book) find(id string) *userspb.User {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byID[id]
}

// page returns up to limit users from offset on, and how many there are.
func (b *book) page(offset, limit int) (users []*userspb.User, total int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	total = len(b.residents) + len(b.newcomers)
	for i := offset; i < min(total, offset+limit); i++ {
		users = append(users, b.at(i))
	}
	return users, total
}

// at is the user at a place in the order in which they came.
func (b *book) at(i int) *userspb.User {
	if i < len(b.residents) {
		return b.residents[i]
	}
	return b.newcomers[(b.oldest+i-len(b.residents))%len(b.newcomers)]
}

// taken is what of a new user somebody else has: a field's name, or nothing.
type taken string

// add takes in a user, unless what must be its own is taken.
func (b *book) add(u *userspb.User) taken {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.byID[u.Id] != nil:
		return "id"
	case b.emails[u.Email]:
		return "email"
	}
	b.byID[u.Id], b.emails[u.Email] = u, true
	if len(b.newcomers) < keptNewcomers {
		b.newcomers = append(b.newcomers, u)
		return ""
	}
	leaves := b.newcomers[b.oldest]
	delete(b.byID, leaves.Id)
	delete(b.emails, leaves.Email)
	b.newcomers[b.oldest] = u
	b.oldest = (b.oldest + 1) % keptNewcomers
	return ""
}

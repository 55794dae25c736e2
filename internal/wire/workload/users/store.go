package users

import (
	"sync"

	"wirelab.dev/internal/wire/workload/users/userspb"
)

// maxCreatedUsers is the most created users that the store keeps. Without a bound, ten
// thousand new users per second would fill the memory. The store drops the oldest one,
// which may then be created again.
const maxCreatedUsers = 1000

// store holds all users, by id and in the order of creation. Users in it are never
// written to. Any goroutine may use it.
type store struct {
	mu      sync.RWMutex
	byID    map[string]*userspb.User
	emails  map[string]bool
	initial []*userspb.User // created before the first call
	created []*userspb.User // by CreateUser; a ring once it is full
	oldest  int             // in the ring
}

func newStore(initialUsers []*userspb.User) *store {
	b := &store{
		byID:    make(map[string]*userspb.User, len(initialUsers)+maxCreatedUsers),
		emails:  make(map[string]bool, len(initialUsers)+maxCreatedUsers),
		initial: initialUsers,
	}
	for _, u := range initialUsers {
		b.byID[u.Id], b.emails[u.Email] = u, true
	}
	return b
}

// find returns the user with the id, or nil.
func (b *store) find(id string) *userspb.User {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byID[id]
}

// page returns up to limit users from offset on, and the number of all users.
func (b *store) page(offset, limit int) (users []*userspb.User, total int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	total = len(b.initial) + len(b.created)
	for i := offset; i < min(total, offset+limit); i++ {
		users = append(users, b.at(i))
	}
	return users, total
}

// at returns the ith user in the order of creation.
func (b *store) at(i int) *userspb.User {
	if i < len(b.initial) {
		return b.initial[i]
	}
	return b.created[(b.oldest+i-len(b.initial))%len(b.created)]
}

// duplicateField names the field of a new user that another user has already, if any.
type duplicateField string

// add stores a user unless its id or email belongs to another user.
func (b *store) add(u *userspb.User) duplicateField {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.byID[u.Id] != nil:
		return "id"
	case b.emails[u.Email]:
		return "email"
	}
	b.byID[u.Id], b.emails[u.Email] = u, true
	if len(b.created) < maxCreatedUsers {
		b.created = append(b.created, u)
		return ""
	}
	leaves := b.created[b.oldest]
	delete(b.byID, leaves.Id)
	delete(b.emails, leaves.Email)
	b.created[b.oldest] = u
	b.oldest = (b.oldest + 1) % maxCreatedUsers
	return ""
}

package users

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/workload/users/userspb"
)

// The size of an encoded request for a new user. The published study's large one has
// 12,641 bytes, its small one about 0.2 KB.
const (
	smallBytes = 200
	largeBytes = 12_641
)

// initialCreatedAt is the creation time of the initial users. Any time will do, as long as
// both ends use the same.
const initialCreatedAt = 1_760_000_000

var (
	firstNames = []string{"Ada", "Alan", "Barbara", "Dennis", "Edsger", "Frances", "Grace", "Hedy", "John", "Katherine", "Ken", "Leslie", "Margaret", "Niklaus", "Radia", "Tony"}
	lastNames  = []string{"Allen", "Dijkstra", "Hamilton", "Hoare", "Hopper", "Johnson", "Lamarr", "Lamport", "Liskov", "Lovelace", "Perlman", "Ritchie", "Thompson", "Turing", "Wirth", "Neumann"}
	cities     = []string{"Bern", "Bonn", "Genoa", "Graz", "Leeds", "Lyon", "Malmo", "Porto"}
	words      = strings.Fields("a an and are as at be by data for from gate has in is it key lambda loop machine of on or proof queue set stack that the thread to type was wire with")
)

// makeUser makes a request for a new user whose encoding has sizeBytes. Equal random
// sources make equal users.
func makeUser(id string, sizeBytes int, random *rand.Rand) *userspb.CreateUserRequest {
	first, last := pick(firstNames, random), pick(lastNames, random)
	u := &userspb.CreateUserRequest{
		Id: id, Name: first + " " + last, Email: id + "@example.com",
		Age: int32(18 + random.IntN(60)), PaidPlan: true,
		Address: &userspb.Address{
			Street: fmt.Sprintf("%d %s Street", 1+random.IntN(99), pick(lastNames, random)), City: pick(cities, random),
			Postcode: fmt.Sprintf("%05d", random.IntN(100_000)), Country: "XX",
		},
		Tags: []string{pick(words, random), pick(words, random)},
	}
	// The biography takes what is left: its own bytes, a tag, and a length.
	left := sizeBytes - proto.Size(u) - 1
	for length := 1; length <= 3; length++ {
		if n := left - length; n >= 0 && n < 1<<(7*length) {
			u.Biography = textOf(n, random)
			break
		}
	}
	return u
}

func pick(from []string, random *rand.Rand) string { return from[random.IntN(len(from))] }

// textOf returns text of sizeBytes.
func textOf(sizeBytes int, random *rand.Rand) string {
	var text strings.Builder
	for text.Len() < sizeBytes {
		text.WriteString(pick(words, random))
		text.WriteByte(' ')
	}
	return text.String()[:sizeBytes]
}

// population holds the initial users made so far. Clients and the server make the same
// ones.
var population struct {
	mu    sync.Mutex
	users []*userspb.User
}

// initialUsers returns the n users that exist before the first call. They are shared:
// do not write to them.
func initialUsers(n int) []*userspb.User {
	population.mu.Lock()
	defer population.mu.Unlock()
	for i := len(population.users); i < n; i++ {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		u := userOf(makeUser(fmt.Sprintf("user-%07d", i), smallBytes, random), initialCreatedAt)
		population.users = append(population.users, u)
	}
	return population.users[:n:n]
}

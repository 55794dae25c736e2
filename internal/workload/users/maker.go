package users

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/workload/users/userspb"
)

// How large the encoded request for a new user is: 12,641 bytes is the published
// study's large one, which is about 0.2 KB where it is small.
const (
	smallBytes = 200
	largeBytes = 12_641
)

// moveIn is when the residents came: any time will do, if it is one for all.
const moveIn = 1_760_000_000

var (
	firstNames = []string{"Ada", "Alan", "Barbara", "Dennis", "Edsger", "Frances", "Grace", "Hedy", "John", "Katherine", "Ken", "Leslie", "Margaret", "Niklaus", "Radia", "Tony"}
	lastNames  = []string{"Allen", "Dijkstra", "Hamilton", "Hoare", "Hopper", "Johnson", "Lamarr", "Lamport", "Liskov", "Lovelace", "Perlman", "Ritchie", "Thompson", "Turing", "Wirth", "Neumann"}
	cities     = []string{"Bern", "Bonn", "Genoa", "Graz", "Leeds", "Lyon", "Malmo", "Porto"}
	words      = strings.Fields("a an and are as at be by data for from gate has in is it key lambda loop machine of on or proof queue set stack that the thread to type was wire with")
)

// makeUser makes a request for a new user that takes so many bytes when it is
// encoded. Equal random sources make equal users.
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
			u.Biography = prose(n, random)
			break
		}
	}
	return u
}

func pick(from []string, random *rand.Rand) string { return from[random.IntN(len(from))] }

// prose is words of so many bytes in all.
func prose(sizeBytes int, random *rand.Rand) string {
	var text strings.Builder
	for text.Len() < sizeBytes {
		text.WriteString(pick(words, random))
		text.WriteByte(' ')
	}
	return text.String()[:sizeBytes]
}

// population is the residents that were made so far: clients and the server
// make the same ones.
var population struct {
	mu    sync.Mutex
	users []*userspb.User
}

// residents are the users that there are from the beginning. They are shared,
// and never written to.
func residents(n int) []*userspb.User {
	population.mu.Lock()
	defer population.mu.Unlock()
	for i := len(population.users); i < n; i++ {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		u := userOf(makeUser(fmt.Sprintf("user-%07d", i), smallBytes, random), moveIn)
		population.users = append(population.users, u)
	}
	return population.users[:n:n]
}

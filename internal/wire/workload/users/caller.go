package users

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// A caller is one client. It reuses one request of each kind, and changes only the fields that
// must differ between calls.
type caller struct {
	stub   userspb.UserServiceClient
	plan   plan
	random *rand.Rand
	users  []*userspb.User

	oneRequest     userspb.GetUserRequest
	pageRequest    userspb.GetUsersRequest
	createRequests [len(operationNames)]*userspb.CreateUserRequest // indexed by operation
	prefix         string                                          // prefix of the ids that it makes
	created        int

	// These fields describe the last call.
	operation operation
	wanted    int // index of the first user that the call asked for
	one       *userspb.User
	page      *userspb.GetUsersResponse
}

func newCaller(conn grpc.ClientConnInterface, job workload.Job, p plan) *caller {
	c := &caller{
		stub: userspb.NewUserServiceClient(conn), plan: p,
		random: rand.New(rand.NewPCG(job.Seed, uint64(job.Client))),
		users:  initialUsers(p.users),
		prefix: fmt.Sprintf("new-%016x-%06d-", job.Seed, job.Client),
	}
	c.pageRequest.Limit = int32(min(p.limit, p.users))
	c.createRequests[createSmall] = makeUser(c.nextID(), smallBytes, c.random)
	c.createRequests[createLarge] = makeUser(c.nextID(), largeBytes, c.random)
	return c
}

// nextID returns an id that no other client or call uses. All ids have the same length.
func (c *caller) nextID() string {
	c.created++
	return fmt.Sprintf("%s%09d", c.prefix, c.created)
}

// Call makes one call with a random operation of the mix.
func (c *caller) Call(ctx context.Context) error {
	var err error
	c.operation = c.plan.mix.randomOperation(c.random)
	switch c.operation {
	case getUser:
		c.wanted = c.random.IntN(len(c.users))
		c.oneRequest.Id = c.users[c.wanted].Id
		c.one, err = c.stub.GetUser(ctx, &c.oneRequest)
	case getUsers:
		c.wanted = c.random.IntN(len(c.users) - int(c.pageRequest.Limit) + 1)
		c.pageRequest.Offset = int32(c.wanted)
		c.page, err = c.stub.GetUsers(ctx, &c.pageRequest)
	default:
		request := c.createRequests[c.operation]
		request.Id = c.nextID()
		request.Email = request.Id + "@example.com"
		c.one, err = c.stub.CreateUser(ctx, request)
	}
	return err
}

// Check checks that the answer has the requested users.
func (c *caller) Check() error {
	switch c.operation {
	case getUser:
		return compareUsers(c.one, c.users[c.wanted])
	case getUsers:
		return c.checkPage()
	default:
		if c.one.GetCreatedAt() <= 0 {
			return errors.New("users: the answer's new user has no creation time")
		}
		return compareUsers(c.one, userOf(c.createRequests[c.operation], c.one.CreatedAt))
	}
}

func (c *caller) checkPage() error {
	want := c.users[c.wanted:][:c.pageRequest.Limit]
	if len(c.page.GetUsers()) != len(want) {
		return fmt.Errorf("users: the page has %d users, want %d", len(c.page.GetUsers()), len(want))
	}
	if int(c.page.Total) < len(c.users) {
		return fmt.Errorf("users: the total is %d users, want %d or more", c.page.Total, len(c.users))
	}
	for i, user := range c.page.Users {
		if err := compareUsers(user, want[i]); err != nil {
			return err
		}
	}
	return nil
}

// compareUsers returns an error that names a field in which two users differ. It does not use
// proto.Equal, which would take the client more time than the call.
func compareUsers(got, want *userspb.User) error {
	for _, field := range [...]struct {
		name string
		same bool
	}{
		{"id", got.GetId() == want.Id},
		{"name", got.GetName() == want.Name},
		{"email", got.GetEmail() == want.Email},
		{"age, plan or time", got.GetAge() == want.Age && got.GetPaidPlan() == want.PaidPlan && got.GetCreatedAt() == want.CreatedAt},
		{"tags", slices.Equal(got.GetTags(), want.Tags)},
		{"biography", got.GetBiography() == want.Biography},
		{"address", compareAddresses(got.GetAddress(), want.GetAddress())},
	} {
		if !field.same {
			return fmt.Errorf("users: the %s of user %q is wrong: the answer has user %q", field.name, want.Id, got.GetId())
		}
	}
	return nil
}

func compareAddresses(a, b *userspb.Address) bool {
	return a.GetStreet() == b.GetStreet() && a.GetCity() == b.GetCity() &&
		a.GetPostcode() == b.GetPostcode() && a.GetCountry() == b.GetCountry()
}

// These are sizes of encoded requests for a new user. The published study's large request has
// 12,641 bytes, its small one about 0.2 KB.
const (
	smallBytes = 200
	largeBytes = 12_641
)

// initialCreatedAt is the creation time of the initial users. The value is arbitrary, but must be
// the same in client and server.
const initialCreatedAt = 1_760_000_000

var (
	firstNames     = []string{"Ada", "Alan", "Barbara", "Dennis", "Edsger", "Frances", "Grace", "Hedy", "John", "Katherine", "Ken", "Leslie", "Margaret", "Niklaus", "Radia", "Tony"}
	lastNames      = []string{"Allen", "Dijkstra", "Hamilton", "Hoare", "Hopper", "Johnson", "Lamarr", "Lamport", "Liskov", "Lovelace", "Perlman", "Ritchie", "Thompson", "Turing", "Wirth", "Neumann"}
	cities         = []string{"Bern", "Bonn", "Genoa", "Graz", "Leeds", "Lyon", "Malmo", "Porto"}
	biographyWords = strings.Fields("a an and are as at be by data for from gate has in is it key lambda loop machine of on or proof queue set stack that the thread to type was wire with")
)

// makeUser makes a request of sizeBytes to create a user. Equal random sources give equal users.
func makeUser(id string, sizeBytes int, random *rand.Rand) *userspb.CreateUserRequest {
	first, last := pickRandom(firstNames, random), pickRandom(lastNames, random)
	u := &userspb.CreateUserRequest{
		Id: id, Name: first + " " + last, Email: id + "@example.com",
		Age: int32(18 + random.IntN(60)), PaidPlan: true,
		Address: &userspb.Address{
			Street: fmt.Sprintf("%d %s Street", 1+random.IntN(99), pickRandom(lastNames, random)), City: pickRandom(cities, random),
			Postcode: fmt.Sprintf("%05d", random.IntN(100_000)), Country: "XX",
		},
		Tags: []string{pickRandom(biographyWords, random), pickRandom(biographyWords, random)},
	}
	// The biography fills the remaining bytes: a tag, a length, and the text.
	left := sizeBytes - proto.Size(u) - 1
	for length := 1; length <= 3; length++ {
		if n := left - length; n >= 0 && n < 1<<(7*length) {
			u.Biography = randomText(n, random)
			break
		}
	}
	return u
}

func pickRandom(from []string, random *rand.Rand) string { return from[random.IntN(len(from))] }

func randomText(sizeBytes int, random *rand.Rand) string {
	var text strings.Builder
	for text.Len() < sizeBytes {
		text.WriteString(pickRandom(biographyWords, random))
		text.WriteByte(' ')
	}
	return text.String()[:sizeBytes]
}

// population holds the initial users made so far. They are the same in client and server.
var population struct {
	mu    sync.Mutex
	users []*userspb.User
}

// initialUsers returns the first n users. They are shared: do not write to them.
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

package users

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"google.golang.org/grpc"

	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/users/userspb"
)

// caller is one client. It keeps one request of each kind for its whole life,
// and changes in it only what makes a call different from the last.
type caller struct {
	stub      userspb.UserServiceClient
	plan      plan
	random    *rand.Rand
	residents []*userspb.User

	oneRequest  userspb.GetUserRequest
	pageRequest userspb.GetUsersRequest
	newcomers   [len(operationNames)]*userspb.CreateUserRequest // by operation
	prefix      string                                          // of the ids of its newcomers
	created     int

	// Of the last call.
	operation operation
	wanted    int // its first resident
	one       *userspb.User
	page      *userspb.GetUsersResponse
}

func newCaller(conn grpc.ClientConnInterface, job workload.Job, p plan) *caller {
	c := &caller{
		stub: userspb.NewUserServiceClient(conn), plan: p,
		random:    rand.New(rand.NewPCG(job.Seed, uint64(job.Client))),
		residents: residents(p.users),
		prefix:    fmt.Sprintf("new-%016x-%06d-", job.Seed, job.Client),
	}
	c.pageRequest.Limit = int32(min(p.limit, p.users))
	c.newcomers[createSmall] = makeUser(c.nextID(), smallBytes, c.random)
	c.newcomers[createLarge] = makeUser(c.nextID(), largeBytes, c.random)
	return c
}

// nextID is an id that no other client and no other call has. All are equally
// long, so that all requests are.
func (c *caller) nextID() string {
	c.created++
	return fmt.Sprintf("%s%09d", c.prefix, c.created)
}

// Call makes a call of the mix.
func (c *caller) Call(ctx context.Context) error {
	var err error
	c.operation = c.plan.mix.draw(c.random)
	switch c.operation {
	case getUser:
		c.wanted = c.random.IntN(len(c.residents))
		c.oneRequest.Id = c.residents[c.wanted].Id
		c.one, err = c.stub.GetUser(ctx, &c.oneRequest)
	case getUsers:
		c.wanted = c.random.IntN(len(c.residents) - int(c.pageRequest.Limit) + 1)
		c.pageRequest.Offset = int32(c.wanted)
		c.page, err = c.stub.GetUsers(ctx, &c.pageRequest)
	default:
		newcomer := c.newcomers[c.operation]
		newcomer.Id = c.nextID()
		newcomer.Email = newcomer.Id + "@example.com"
		c.one, err = c.stub.CreateUser(ctx, newcomer)
	}
	return err
}

// Check wants the very users that the last call asked for.
func (c *caller) Check() error {
	switch c.operation {
	case getUser:
		return same(c.one, c.residents[c.wanted])
	case getUsers:
		return c.checkPage()
	default:
		if c.one.GetCreatedAt() <= 0 {
			return errors.New("users: a new user without the time of its creation")
		}
		return same(c.one, userOf(c.newcomers[c.operation], c.one.CreatedAt))
	}
}

func (c *caller) checkPage() error {
	want := c.residents[c.wanted:][:c.pageRequest.Limit]
	if len(c.page.GetUsers()) != len(want) {
		return fmt.Errorf("users: a page of %d, want %d", len(c.page.GetUsers()), len(want))
	}
	if int(c.page.Total) < len(c.residents) {
		return fmt.Errorf("users: %d users in all, want %d or more", c.page.Total, len(c.residents))
	}
	for i, user := range c.page.Users {
		if err := same(user, want[i]); err != nil {
			return err
		}
	}
	return nil
}

// same says in what two users differ. It compares field by field, since
// proto.Equal would cost the client more than the call.
func same(got, want *userspb.User) error {
	differs := func(field string) error {
		return fmt.Errorf("users: the %s of %q came as that of %q", field, want.Id, got.GetId())
	}
	switch {
	case got.GetId() != want.Id:
		return differs("id")
	case got.Name != want.Name:
		return differs("name")
	case got.Email != want.Email:
		return differs("email")
	case got.Age != want.Age || got.PaidPlan != want.PaidPlan || got.CreatedAt != want.CreatedAt:
		return differs("age, plan or time")
	case !slices.Equal(got.Tags, want.Tags):
		return differs("tags")
	case got.Biography != want.Biography:
		return differs("biography")
	case !sameAddress(got.GetAddress(), want.GetAddress()):
		return differs("address")
	}
	return nil
}

func sameAddress(a, b *userspb.Address) bool {
	return a.GetStreet() == b.GetStreet() && a.GetCity() == b.GetCity() &&
		a.GetPostcode() == b.GetPostcode() && a.GetCountry() == b.GetCountry()
}

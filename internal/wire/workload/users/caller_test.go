package users

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users/userspb"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

func parameters(t testing.TB, text string) workload.Parameters {
	t.Helper()
	return workload.Parameters{Settings: workloadtest.Settings(t, text)}
}

func TestEveryOperationIsAnsweredRight(t *testing.T) {
	for _, text := range []string{
		"op=get-user,work=0s", "op=get-users,work=0s", "op=create-small,work=0s", "op=create-large,work=0s",
		"op=get-users,work=0s,users=3,limit=20", "mix=get-user*8+get-users*1+create-small*1+create-large*1,work=0s,limit=1000",
	} {
		t.Run(text, func(t *testing.T) {
			p := parameters(t, text)
			conn := workloadtest.Connect(t, Workload{}, p)
			for client := range 3 {
				c := Workload{}.NewCaller(conn, workload.Job{Parameters: p, Client: client, Seed: 7})
				for range 50 {
					if err := workloadtest.CallAndCheck(t, c); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestWrongAnswersAreNoticed(t *testing.T) {
	for _, wrong := range []struct {
		text  string
		spoil func(any)
		says  string
	}{
		{"op=get-user", func(m any) { proto.Reset(m.(proto.Message)) }, "the id of"},
		{"op=get-user", func(m any) { m.(*userspb.User).Name += "!" }, "the name of"},
		{"op=get-user", func(m any) { m.(*userspb.User).Age++ }, "the age"},
		{"op=get-user", func(m any) { m.(*userspb.User).Address = nil }, "the address of"},
		{"op=get-user", func(m any) { m.(*userspb.User).Tags[1] = "else" }, "the tags of"},
		{"op=create-large", func(m any) { m.(*userspb.User).Biography += " " }, "the biography of"},
		{"op=create-small", func(m any) { m.(*userspb.User).CreatedAt = 0 }, "no creation time"},
		{"op=get-users", func(m any) { p := m.(*userspb.GetUsersResponse); p.Users = p.Users[1:] }, "the page has 19 users, want 20"},
		{"op=get-users", func(m any) { p := m.(*userspb.GetUsersResponse); p.Users[0], p.Users[1] = p.Users[1], p.Users[0] }, "the id of"},
		{"op=get-users", func(m any) { m.(*userspb.GetUsersResponse).Total = 20 }, "the total is 20 users"},
	} {
		p := parameters(t, wrong.text+",work=0s")
		conn := &workloadtest.AlteredConn{ClientConnInterface: workloadtest.Connect(t, Workload{}, p), Answer: wrong.spoil}
		c := Workload{}.NewCaller(conn, workload.Job{Parameters: p, Seed: 7})
		workloadtest.ExpectError(t, wrong.text, workloadtest.CallAndCheck(t, c), wrong.says)
	}
}

// TestSizes keeps the requests as large as the published ones.
func TestSizes(t *testing.T) {
	p := readPlan(workload.ReadOptions(Workload{}, parameters(t, "op=create-small")))
	for _, client := range []int{0, 1, 99_999} {
		for _, seed := range []uint64{0, 1, 1 << 63} {
			c := newCaller(nil, workload.Job{Client: client, Seed: seed}, p)
			for operation, want := range map[operation]int{createSmall: 200, createLarge: 12_641} {
				request := c.createRequests[operation]
				if size := proto.Size(request); size != want {
					t.Errorf("client %d, seed %d: %s takes %d bytes, want %d", client, seed, operationNames[operation], size, want)
				}
				if err := checkCreateUser(request); err != nil {
					t.Errorf("the maker breaks the rules: %v", err)
				}
			}
		}
	}
	for _, u := range initialUsers(100) {
		if size := proto.Size(u); size < 180 || size > 220 {
			t.Errorf("a resident takes %d bytes", size)
		}
	}
}

func TestEqualJobsSendEqualBytes(t *testing.T) {
	p := readPlan(workload.ReadOptions(Workload{}, parameters(t, "mix=get-user*1+create-small*1")))
	text := func(client int, seed uint64) string {
		c := newCaller(nil, workload.Job{Client: client, Seed: seed}, p)
		return fmt.Sprint(c.createRequests[createSmall], c.createRequests[createLarge], c.random.Uint64())
	}
	first, again := text(1, 1), text(1, 1)
	if first != again {
		t.Error("equal jobs differ")
	}
	if first == text(1, 2) || first == text(2, 1) {
		t.Error("another seed or another client sends the same")
	}
}

func TestRoutes(t *testing.T) {
	for method, want := range map[string]string{
		userspb.UserService_GetUser_FullMethodName:    "GET /users/{id} 200",
		userspb.UserService_GetUsers_FullMethodName:   "GET /users 200",
		userspb.UserService_CreateUser_FullMethodName: "POST /users 201",
	} {
		r, err := route.ForMethod(method)
		if got := fmt.Sprintf("%s %s %d", r.Verb, r.Template("{", "}"), r.Success); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", method, got, err, want)
		}
	}
}

func TestMixIsDrawnByWeight(t *testing.T) {
	m, err := parseMix("get-user*8+get-users+create-large*1")
	if err != nil || !slices.Equal(m, operationMix{{getUser, 8}, {getUsers, 1}, {createLarge, 1}}) {
		t.Fatalf("%v, %v", m, err)
	}
	counts := map[operation]int{}
	random := rand.New(rand.NewPCG(1, 1))
	const draws = 100_000
	for range draws {
		counts[m.randomOperation(random)]++
	}
	for _, one := range m {
		share := float64(counts[one.operation]) / draws
		if want := float64(one.weight) / 10; share < want-0.01 || share > want+0.01 {
			t.Errorf("%s is drawn in %.3f of all cases, want %.1f", operationNames[one.operation], share, want)
		}
	}
	if counts[createSmall] != 0 {
		t.Error("what is not in the mix is drawn")
	}
}

func FuzzParseMix(f *testing.F) {
	f.Add("get-user")
	f.Add("get-user*8+get-users*1+create-small*1")
	f.Add("create-large*1000000+get-user*0")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMix(text)
		if err != nil {
			return
		}
		var parts []string
		for _, one := range m {
			parts = append(parts, fmt.Sprintf("%s*%d", operationNames[one.operation], one.weight))
		}
		again, err := parseMix(strings.Join(parts, "+"))
		if err != nil || !slices.Equal(again, m) {
			t.Fatalf("%v came back as %v, %v", m, again, err)
		}
		m.randomOperation(rand.New(rand.NewPCG(1, 1)))
	})
}

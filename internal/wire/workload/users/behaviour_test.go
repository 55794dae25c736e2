package users_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// over are the wires that the suite runs over: gRPC, REST as most people write
// it, REST with protobuf, and others, which must not differ.
var over = []string{
	"grpc", "grpc:tls=on", "rest", "rest-json", "rest-json:json=protojson", "rest-json:http=2", "rest-json:tls=on,http=2",
	"tcp", "h1:codec=json", "h2",
}

func ada(id string) *userspb.CreateUserRequest {
	return &userspb.CreateUserRequest{
		Id: id, Name: "Ada Lovelace", Email: id + "@example.com", Age: 36, Tags: []string{"first", "of all"}, PaidPlan: true,
		Address: &userspb.Address{Street: "12 St James's Square", City: "London", Postcode: "SW1Y", Country: "GB"}, Biography: "größer als {\"} <&> \\u0000",
	}
}

// TestBehaviour asks the same of every wire, and wants the same answers.
func TestBehaviour(t *testing.T) {
	for _, variant := range over {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			r := start(t, variant, plainly)
			checkValid(t, r)
			checkRefused(t, r)
			checkSeedUsers(t, r)
		})
	}
}

func checkValid(t *testing.T, r rig) {
	t.Helper()
	made, err := r.stub.CreateUser(within(t), ada("ada-1"))
	if err != nil {
		t.Fatal(err)
	}
	want := ada("ada-1")
	if made.Id != want.Id || made.Biography != want.Biography || made.Address.GetStreet() != want.Address.Street ||
		made.CreatedAt == 0 || !made.PaidPlan || len(made.Tags) != 2 {
		t.Errorf("created %v", made)
	}
	found, err := r.stub.GetUser(within(t), &userspb.GetUserRequest{Id: "ada-1"})
	if err != nil || found.Email != want.Email || found.CreatedAt != made.CreatedAt {
		t.Errorf("found %v, %v", found, err)
	}
}

func checkSeedUsers(t *testing.T, r rig) {
	t.Helper()
	page, err := r.stub.GetUsers(within(t), &userspb.GetUsersRequest{Limit: 3, Offset: 998})
	if err != nil || page.Total != 1001 || len(page.Users) != 3 || page.Users[2].Id != "ada-1" {
		t.Errorf("the last page is %v, %v", page, err)
	}
	if page, err := r.stub.GetUsers(within(t), &userspb.GetUsersRequest{}); err != nil || len(page.Users) != 20 {
		t.Errorf("a page of the usual size has %d users, %v", len(page.GetUsers()), err)
	}
}

// checkRefused wants a code and a word that helps, each time.
func checkRefused(t *testing.T, r rig) {
	t.Helper()
	invalid, large, huge, sameEmail := ada("ada-2"), ada("ada-3"), ada("ada-4"), ada("ada-5")
	invalid.Email, invalid.Age = "nowhere", 200
	large.Biography = strings.Repeat("x", 64<<10+1)
	huge.Biography = strings.Repeat("x", stack.MaxMessageBytes*3/2) // in JSON, bytes may take a third more
	sameEmail.Email = "ada-1@example.com"
	for _, test := range []struct {
		what string
		call func() error
		code codes.Code
		says string
	}{
		{"missing", func() error { _, err := r.stub.GetUser(within(t), &userspb.GetUserRequest{Id: "nobody"}); return err }, codes.NotFound, `there is no user "nobody"`},
		{"not an id", func() error { _, err := r.stub.GetUser(within(t), &userspb.GetUserRequest{Id: "a b/ü"}); return err }, codes.InvalidArgument, "id must be up to 64"},
		{"conflicting id", func() error { _, err := r.stub.CreateUser(within(t), ada("ada-1")); return err }, codes.AlreadyExists, `"ada-1" belongs`},
		{"conflicting email", func() error { _, err := r.stub.CreateUser(within(t), sameEmail); return err }, codes.AlreadyExists, "email"},
		{"invalid", func() error { _, err := r.stub.CreateUser(within(t), invalid); return err }, codes.InvalidArgument, "email is not an address"},
		{"too large for the rules", func() error { _, err := r.stub.CreateUser(within(t), large); return err }, codes.InvalidArgument, "biography has 65537 bytes"},
		{"too large for the wire", func() error { _, err := r.stub.CreateUser(within(t), huge); return err }, codes.ResourceExhausted, ""},
		{"invalid page", func() error { _, err := r.stub.GetUsers(within(t), &userspb.GetUsersRequest{Limit: -1}); return err }, codes.InvalidArgument, "limit must be 1 to 1000"},
		{"unknown operation", func() error {
			return r.conn.Invoke(within(t), "/wirelab.users.v1.UserService/DeleteUser", &userspb.GetUserRequest{Id: "x"}, &userspb.User{})
		}, codes.Unimplemented, ""},
	} {
		err := test.call()
		if st := status.Convert(err); st.Code() != test.code || !strings.Contains(st.Message(), test.says) {
			t.Errorf("%s: %v, want %v and %q", test.what, err, test.code, test.says)
		}
	}
	_, err := r.stub.CreateUser(within(t), invalid)
	var fields []string
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range bad.GetFieldViolations() {
				fields = append(fields, violation.Field)
			}
		}
	}
	if strings.Join(fields, " ") != "email age" {
		t.Errorf("the details name the fields %v, want email and age", fields)
	}
}

// TestGarbageOverGRPC sends what is no message.
func TestGarbageOverGRPC(t *testing.T) {
	r := start(t, "grpc", plainly)
	err := r.conn.Invoke(within(t), userspb.UserService_GetUser_FullMethodName, []byte{0xff, 0xff}, &[]byte{}, grpc.ForceCodec(asTheyAre{}))
	if st := status.Convert(err); st.Code() != codes.Internal || !strings.Contains(st.Message(), "unmarshal") {
		t.Errorf("two bytes that are no message: %v", err)
	}
}

// asTheyAre is a codec of bytes.
type asTheyAre struct{}

var _ encoding.Codec = asTheyAre{}

func (asTheyAre) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (asTheyAre) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (asTheyAre) Name() string                       { return "proto" }

// A restCase holds a mistake of a person with curl, and the answer that they must get.
type restCase struct {
	what    string
	request request
	status  int
	code    string // in the body
	says    string
}

const inJSON = "application/json"

// TestRESTAsPeopleWriteIt looks at what goes over the wire.
func TestRESTAsPeopleWriteIt(t *testing.T) {
	huge := `{"id":"big","name":"Big","email":"big@example.com","biography":"` + strings.Repeat("x", 23<<20) + `"}`
	const good = `{"id":"ada-1","name":"Ada Lovelace","email":"ada@example.com","age":36}`
	cases := []restCase{
		{"create", request{"POST", "/users", inJSON, good}, 201, "", `"id":"ada-1"`},
		{"get", request{"GET", "/users/ada-1", "", ""}, 200, "", `"email":"ada@example.com"`},
		{"list", request{"GET", "/users?limit=2&offset=999", "", ""}, 200, "", `"total":1001`},
		{"charset", request{"POST", "/users", "application/json; charset=utf-8", strings.ReplaceAll(good, "ada", "bea")}, 201, "", `"id":"bea-1"`},
		{"missing", request{"GET", "/users/nobody", "", ""}, 404, "NOT_FOUND", `no user "nobody"`},
		{"conflict", request{"POST", "/users", inJSON, good}, 409, "ALREADY_EXISTS", "belongs to another user"},
		{"invalid", request{"POST", "/users", inJSON, `{"name":"","email":"nowhere"}`}, 422, "INVALID_ARGUMENT", "name is missing; email is not an address"},
		{"invalid page", request{"GET", "/users?limit=1001", "", ""}, 422, "INVALID_ARGUMENT", "limit must be 1 to 1000, not 1001"},
		{"not an id", request{"GET", "/users/a%20b", "", ""}, 422, "INVALID_ARGUMENT", "letters, digits and dashes"},
		{"oversized", request{"POST", "/users", inJSON, huge}, 413, "RESOURCE_EXHAUSTED", "larger than"},
		{"malformed", request{"POST", "/users", inJSON, `{"name":`}, 400, "INVALID_ARGUMENT", "ends in the middle"},
		{"malformed inside", request{"POST", "/users", inJSON, `{"name" "Ada"}`}, 400, "INVALID_ARGUMENT", "byte 9"},
		{"empty", request{"POST", "/users", inJSON, ""}, 400, "INVALID_ARGUMENT", "the body is empty"},
		{"two objects", request{"POST", "/users", inJSON, `{} {}`}, 400, "INVALID_ARGUMENT", "want one JSON object, but found more data after the object's end at byte 2"},
		{"a list", request{"POST", "/users", inJSON, `[]`}, 400, "INVALID_ARGUMENT", "want an object"},
		{"unknown field", request{"POST", "/users", inJSON, `{"nam":"Ada"}`}, 400, "INVALID_ARGUMENT", "did you mean name?"},
		{"wrong type", request{"POST", "/users", inJSON, `{"age":"old"}`}, 400, "INVALID_ARGUMENT", "age: want int32, found a JSON string"},
		{"unknown query", request{"GET", "/users?limt=3", "", ""}, 400, "INVALID_ARGUMENT", "did you mean limit?"},
		{"no number", request{"GET", "/users?limit=many", "", ""}, 400, "INVALID_ARGUMENT", "want a whole number"},
		{"twice", request{"GET", "/users?limit=1&limit=2", "", ""}, 400, "INVALID_ARGUMENT", "the field has 2 values: want one"},
		{"wrong method", request{"DELETE", "/users/ada-1", "", ""}, 405, "UNIMPLEMENTED", "use GET"},
		{"wrong content type", request{"POST", "/users", "text/plain", good}, 415, "UNIMPLEMENTED", "needs the content type application/json"},
		{"no content type", request{"POST", "/users", "", good}, 415, "UNIMPLEMENTED", "needs the content type application/json"},
		{"nothing there", request{"GET", "/people", "", ""}, 404, "UNIMPLEMENTED", "GET /users/{id}"},
	}
	r := start(t, "rest-json", plainly)
	for _, c := range cases {
		got := r.ask(t, c.request)
		var problem struct{ Code, Message string }
		_ = json.Unmarshal([]byte(got.body), &problem) // an empty problem fails below
		if !strings.HasPrefix(got.header.Get("Content-Type"), inJSON) || got.status != c.status || problem.Code != c.code {
			t.Errorf("%s: %d %s %.300s, want %d and %q", c.what, got.status, got.header.Get("Content-Type"), got.body, c.status, c.code)
		}
		said := problem.Message
		if c.code == "" {
			said = got.body
		}
		if !strings.Contains(said, c.says) {
			t.Errorf("%s: it says %.300s, want %q", c.what, said, c.says)
		}
		if c.status == http.StatusMethodNotAllowed && got.header.Get("Allow") == "" {
			t.Errorf("%s: the header says not what is allowed", c.what)
		}
	}
}

// TestRESTWithProtobuf does the same where REST is one POST an operation. Its
// conventions differ: the codes are those of google.rpc.Code, and errors are text
// for people.
func TestRESTWithProtobuf(t *testing.T) {
	const inProtobuf = "application/x-protobuf"
	r := start(t, "rest", plainly)
	for _, c := range []restCase{
		{"missing", request{"POST", "/get-user", inProtobuf, "\n\x06nobody"}, 404, "", `no user "nobody"`},
		{"invalid", request{"POST", "/create-user", inProtobuf, ""}, 400, "", "name is missing"},
		{"malformed", request{"POST", "/create-user", inProtobuf, "\xff\xff"}, 400, "", "cannot decode the body as wirelab.users.v1.CreateUserRequest"},
		{"wrong method", request{"GET", "/get-user", "", ""}, 405, "", "takes POST"},
		{"wrong content type", request{"POST", "/get-user", "text/plain", "x"}, 415, "", "x-protobuf"},
		{"nothing there", request{"POST", "/people", inProtobuf, ""}, 404, "", "/get-user"},
		{"oversized", request{"POST", "/create-user", inProtobuf, strings.Repeat("x", stack.MaxMessageBytes+1)}, 413, "", "larger than"},
	} {
		if got := r.ask(t, c.request); got.status != c.status || !strings.Contains(got.body, c.says) {
			t.Errorf("%s: %d %.300s, want %d and %q", c.what, got.status, got.body, c.status, c.says)
		}
	}
}

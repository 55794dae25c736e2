package users

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"wirelab.dev/internal/wire/workload/users/userspb"
)

// The limits of a user's fields. users.proto documents them.
const (
	maxIDBytes        = 64
	maxNameRunes      = 100
	maxEmailBytes     = 254 // RFC 5321, section 4.5.3.1.3, less the angle brackets
	maxAge            = 150
	maxTags           = 50
	maxTagRunes       = 50
	maxAddressRunes   = 100
	maxBiographyBytes = 64 << 10

	defaultLimit = 20
	maxLimit     = 1000
)

// faults lists the invalid fields of a request.
type faults []*errdetails.BadRequest_FieldViolation

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, &errdetails.BadRequest_FieldViolation{Field: field, Description: fmt.Sprintf(format, args...)})
}

// err returns nil without faults, and otherwise a status that lists all of them, so
// that the caller can correct them at once.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	var text strings.Builder
	for i, fault := range f {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(fault.Field + " " + fault.Description)
	}
	return errorWithDetail(codes.InvalidArgument, text.String(), &errdetails.BadRequest{FieldViolations: f})
}

// errorWithDetail returns a status error with one detail.
func errorWithDetail(code codes.Code, message string, detail protoadapt.MessageV1) error {
	st, err := status.New(code, message).WithDetails(detail)
	if err != nil {
		panic("users: a detail that cannot be encoded: " + err.Error())
	}
	return st.Err()
}

// userError returns an error about one user.
func userError(code codes.Code, id, message string) error {
	return errorWithDetail(code, message, &errdetails.ResourceInfo{ResourceType: "user", ResourceName: id, Description: message})
}

func checkCreateUser(in *userspb.CreateUserRequest) error {
	var f faults
	if in.Id != "" && !isID(in.Id) {
		f.add("id", "is up to %d letters, digits and dashes, not %.80q", maxIDBytes, in.Id)
	}
	switch n := utf8.RuneCountInString(in.Name); {
	case strings.TrimSpace(in.Name) == "":
		f.add("name", "is missing")
	case n > maxNameRunes:
		f.add("name", "has %d characters; the maximum is %d", n, maxNameRunes)
	}
	switch {
	case in.Email == "":
		f.add("email", "is missing")
	case !isEmail(in.Email):
		f.add("email", "is no address like ada@example.com: %.80q", in.Email)
	}
	if in.Age < 0 || in.Age > maxAge {
		f.add("age", "is 0 to %d, not %d", maxAge, in.Age)
	}
	if len(in.Tags) > maxTags {
		f.add("tags", "are %d; the maximum is %d", len(in.Tags), maxTags)
	}
	for i, tag := range in.Tags {
		if n := utf8.RuneCountInString(tag); n < 1 || n > maxTagRunes {
			f.add(fmt.Sprintf("tags[%d]", i), "has %d characters; it needs 1 to %d", n, maxTagRunes)
			break // report only one of the tags
		}
	}
	for _, line := range []struct{ field, text string }{
		{"street", in.GetAddress().GetStreet()},
		{"city", in.GetAddress().GetCity()},
		{"postcode", in.GetAddress().GetPostcode()},
		{"country", in.GetAddress().GetCountry()},
	} {
		if n := utf8.RuneCountInString(line.text); n > maxAddressRunes {
			f.add("address."+line.field, "has %d characters; the maximum is %d", n, maxAddressRunes)
		}
	}
	if len(in.Biography) > maxBiographyBytes {
		f.add("biography", "has %d bytes; the maximum is %d", len(in.Biography), maxBiographyBytes)
	}
	return f.err()
}

// isID reports whether the text can be an id: characters that a URL path need not
// escape.
func isID(id string) bool {
	for i := range len(id) {
		letter := id[i] | 0x20
		if (letter < 'a' || letter > 'z') && (id[i] < '0' || id[i] > '9') && id[i] != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxIDBytes
}

// isEmail checks as much as is useful without sending a message.
func isEmail(text string) bool {
	local, domain, found := strings.Cut(text, "@")
	return found && local != "" && len(text) <= maxEmailBytes &&
		strings.Contains(strings.Trim(domain, "."), ".") && !strings.ContainsAny(text, " \t\r\n<>\"") && !strings.Contains(domain, "@")
}

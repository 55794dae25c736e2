package link

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestWhatForbidsIsNamed(t *testing.T) {
	for _, test := range []struct{ file, text, want string }{
		{"sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces is 0"},
		{"sys/kernel/unprivileged_userns_clone", "0\n", "sysctl kernel.unprivileged_userns_clone=1"},
		{"sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "kernel.apparmor_restrict_unprivileged_userns is 1"},
		{"self/status", "Name:\tx\nSeccomp:\t2\nThreads:\t1\n", "seccomp"},
		{"self/status", "Name:\tx\nUid:\t0\t0\t0\t0\nSeccomp:\t0\n", "root lacks capabilities"},
		{"self/status", "Name:\tx\nUid:\t1000\t0\t0\t0\nSeccomp:\t0\n", "CONFIG_USER_NS"},
		{"sys/user/max_user_namespaces", "9000\n", "CAP_SYS_ADMIN"},
	} {
		root := fstest.MapFS{"proc/" + test.file: {Data: []byte(test.text)}}
		if got := explainMissingRights(root); !strings.Contains(got, test.want) {
			t.Errorf("%s %q: %s", test.file, test.text, got)
		}
	}
}

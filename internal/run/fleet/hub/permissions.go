package hub

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"wirelab.dev/internal/run/fleet/protocol"
)

// An order is answered at most so often, and for so long after it came.
const (
	answersOfOrder = 4
	answerWithin   = 2 * time.Minute
)

// users returns the users that a hub knows. All agents have one key, so one can speak in another's
// name and hear its orders; it can give none. Who needs more signs up agents at NATS of his own.
func (k *keys) users() []*server.NkeyUser {
	bucket, samples, kept := protocol.AgentsBucket(k.Project), protocol.SamplesStore(k.Project), protocol.KeptStream(k.Project)
	mine := "wl." + k.Project
	return []*server.NkeyUser{
		{Nkey: protocol.PublicOf([]byte(k.Agent)), Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{
				mine + ".to.>",
				protocol.InboxPrefix(k.Project, protocol.RoleAgent) + ".>",
			}},
			Publish: &server.SubjectPermission{Allow: []string{
				mine + ".from.>",
				"$KV." + bucket + ".*", "$JS.API.STREAM.INFO.KV_" + bucket, // its card, and
				"$JS.API.DIRECT.GET.KV_" + bucket + ".$KV." + bucket + ".*", // whether its name is taken
				"$O." + samples + ".>", "$JS.API.STREAM.INFO.OBJ_" + samples, // its samples, and
				"$JS.API.DIRECT.GET.OBJ_" + samples + ".$O." + samples + ".M.*", // whether they are there
			}},
			Response: &server.ResponsePermission{MaxMsgs: answersOfOrder, Expires: answerWithin},
		}},
		{Nkey: protocol.PublicOf([]byte(k.Controller)), Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{mine + ".>"}},
			Publish: &server.SubjectPermission{Allow: []string{
				mine + ".>", "$KV." + bucket + ".>", "$O." + samples + ".>",
				"$JS.API.>", "$JS.ACK." + kept + ".>", "$JS.ACK.KV_" + bucket + ".>", "$JS.ACK.OBJ_" + samples + ".>", "$JS.FC.>",
			}},
		}},
	}
}

// Package credit decides who may send, and when. It knows neither frames nor sockets.
//
// A receiver grants what it has room for; a sender without credit waits, in its own memory
// and in the order of asking, and not in the receiver's.
//
//   - bytes of the connection: what may be under way and not yet taken in. A [Window] keeps
//     them at the receiver, a [Sender] at the sender.
//   - bytes of one stream: what may lie unread, so that who does not read stops nobody else.
//   - requests: how many calls may be begun.
//
// A message is sent in turns of at most [Turn] bytes. Who has more to send goes to the end of
// the queue after each, so that a short message waits for one turn of each long one before
// it, and for no more. A turn waits until there is credit for all of it: the first in the
// queue is never overtaken by those who need less, so nobody starves.
//
// Each frame costs its bytes and [Overhead], since a message of no bytes takes memory too.
package credit

const (
	// Turn is the most bytes of one turn.
	Turn = 68 << 10
	// Overhead is what a frame costs beside its bytes.
	Overhead = 64
	// LeastWindow is the least that a receiver may grant: a sender waits for a whole turn,
	// and a receiver may keep half of the window back, so that it need not renew it for each frame.
	LeastWindow = 2 * (Turn + Overhead)
)

// Cost is what a frame of so many bytes costs.
func Cost(bytes int) int64 { return int64(bytes) + Overhead }

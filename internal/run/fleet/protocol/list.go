package protocol

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Statuses of a server's message that is no card.
const (
	endOfPage   = "204"
	noCards     = "404"
	nobodyThere = "503"
)

// cardsPerPage bounds what waits in the reader's memory.
const cardsPerPage = 100

// ErrNotPrepared is the error for a server without a list of agents.
var ErrNotPrepared = errors.New("this NATS server has no list of agents")

// listRequest asks a NATS server for the next cards of its list. Any replica of the list may answer: so
// it can be read while a cluster has no leader.
type listRequest struct {
	From     uint64 `json:"seq"`
	Subject  string `json:"next_by_subj"`
	Batch    int    `json:"batch"`
	MaxBytes int    `json:"max_bytes"`
}

// ReadCards returns the cards of all agents, sorted by name. It skips those that it cannot decode,
// and those of agents that have left. While no server answers, it asks again until ctx ends.
func ReadCards(ctx context.Context, conn *nats.Conn, project string) ([]Card, error) {
	for {
		all, err := readCards(ctx, conn, project)
		if !errors.Is(err, nats.ErrNoResponders) {
			return all, err
		}
		js, err := jetstream.New(conn)
		if err == nil {
			_, err = js.Stream(ctx, CardStream(project))
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, fmt.Errorf("%w for the fleet %s: prepare it with `wirelab fleet up --nats URL`", ErrNotPrepared, project)
		}
		select { // the servers of a cluster are finding each other
		case <-time.After(askAgainPeriod):
		case <-ctx.Done():
			return nil, fmt.Errorf("read the agents' cards: no hub had the list: %w; if the hubs have just been started, they have not agreed on a leader yet: try again in a few seconds; if not, see the log of each hub", ctx.Err())
		}
	}
}

// askAgainPeriod is the time between two requests for the list, if no server answers.
const askAgainPeriod = 250 * time.Millisecond

func readCards(ctx context.Context, conn *nats.Conn, project string) ([]Card, error) {
	answers, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("read the agents' cards: %w", err)
	}
	defer answers.Unsubscribe() //nolint:errcheck // fails only if the connection is closed
	ask := listRequest{From: 1, Subject: CardSubjects(project), Batch: cardsPerPage, MaxBytes: 2 * cardsPerPage * MaxCardBytes}
	byName := map[string]Card{} // a card that is renewed between two pages is in both
	for ask.From > 0 {
		text, err := json.Marshal(ask)
		if err != nil {
			return nil, err
		}
		if err := conn.PublishRequest(ListSubject(project), answers.Subject, text); err != nil {
			return nil, fmt.Errorf("read the agents' cards: %w", err)
		}
		if ask.From, err = readPage(ctx, answers, byName); err != nil {
			return nil, fmt.Errorf("read the agents' cards: %w", err)
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Card) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// readPage reads the answers to one request. next is where the next page begins; 0 means that there is none.
func readPage(ctx context.Context, answers *nats.Subscription, into map[string]Card) (next uint64, err error) {
	for cards := 0; ; {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return 0, err
		}
		if m.Header.Get(jetstream.SubjectHeader) != "" { // the server adds it to each card
			cards++
			if card, ok := readCard(m); ok {
				into[card.Name] = card
			}
			continue
		}
		switch status := m.Header.Get("Status"); {
		case status == nobodyThere:
			return 0, nats.ErrNoResponders
		case status == noCards, status == endOfPage && cards < cardsPerPage: // what has come since is not read
			return 0, nil
		case status == endOfPage:
			last, err := strconv.ParseUint(m.Header.Get(jetstream.LastSequenceHeader), 10, 64)
			return last + 1, err
		default:
			return 0, fmt.Errorf("the server says %q, %q", status, m.Header.Get("Description"))
		}
	}
}

// readCard decodes a card. It refuses a card whose name is not in the subject on which it was sent:
// a server lets an agent send on its own subjects only.
func readCard(m *nats.Msg) (card Card, ok bool) {
	subjects, times := m.Header.Values(jetstream.SubjectHeader), m.Header.Values(jetstream.TimeStampHeaer)
	if len(subjects) != 1 || len(times) != 1 {
		return Card{}, false // the agent has sent such headers, too
	}
	seen, err := time.Parse(time.RFC3339Nano, times[0])
	if err != nil || json.Unmarshal(m.Data, &card) != nil || CheckName(card.Name) != nil || card.Left || !card.isPrintable() {
		return Card{}, false
	}
	if parts := strings.Split(subjects[0], "."); len(parts) != cardSubjectParts || parts[3] != card.Name {
		return Card{}, false
	}
	card.Seen = seen
	return card, true
}

const cardSubjectParts = 5 // wl.P.from.A.card

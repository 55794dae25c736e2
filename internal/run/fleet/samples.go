package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/run/fleet/protocol"
)

// maxSampleFile bounds a file of samples from an agent.
const maxSampleFile = 2 << 30

// fetchSamples copies a worker's samples from the fleet's stream into a file.
func (c *Controller) fetchSamples(ctx context.Context, of *remoteWorker, sent *sentSamples, path string) (err error) {
	if sent.Bytes < 0 || sent.Bytes > maxSampleFile {
		return fmt.Errorf("the samples have %d bytes: want at most %d", sent.Bytes, maxSampleFile)
	}
	stream, subject := protocol.Samples.Name(c.credentials.Project), c.credentials.SampleSubject(of.on.Name)
	parts, err := c.stream.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{subject}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sent.First,
	})
	if err != nil {
		return err
	}
	part := path + ".part"
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(part))
			return
		}
		err = os.Rename(part, path)
	}()
	sum, about, last := sha256.New(), aboutWorker(c.run, of.name), sent.First
	for left := sent.Bytes; left > 0; {
		m, err := parts.Next(jetstream.FetchMaxWait(keptSendTimeout))
		if err != nil {
			return err
		}
		if m.Headers().Get(aboutHeader) != about || int64(len(m.Data())) > left {
			return errors.New("the samples on the hub are not those of this worker, or were pushed out by later ones")
		}
		if _, err := file.Write(m.Data()); err != nil {
			return err
		}
		_, _ = sum.Write(m.Data()) // never fails
		left -= int64(len(m.Data()))
		if at, err := m.Metadata(); err == nil {
			last = at.Sequence.Stream
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if hex.EncodeToString(sum.Sum(nil)) != sent.SHA256 {
		return errors.New("the samples were damaged on their way")
	}
	if from, err := c.stream.Stream(ctx, stream); err == nil { // if this fails, the samples expire later
		_ = from.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(last+1))
	}
	return nil
}

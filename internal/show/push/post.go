package push

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"wirelab.dev/internal/base/excerpt"
)

// Header is a header field of each push, such as a token.
type Header struct{ Name, Value string }

// A poster posts encoded metrics.
type poster struct {
	url    string
	header []Header
	client http.Client
}

func (p *poster) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "wirelab")
	for _, h := range p.header {
		request.Header.Set(h.Name, h.Value)
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered %s: %s", answer.Status, excerpt.Start(strings.TrimSpace(strings.ToValidUTF8(string(text), "�")), 200))
	}
	return err
}

func (p *poster) close() { p.client.CloseIdleConnections() }

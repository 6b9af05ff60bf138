package curator

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// A model asks for a segment out of view with {"id": "ctx-17"} or {"about": "some
// words"}. The answer is an [Original].
const (
	// UnfoldSchema is the JSON Schema of the request.
	UnfoldSchema = `{"type":"object","additionalProperties":false,"minProperties":1,"maxProperties":1,"properties":{` +
		`"id":{"type":"string","pattern":"^ctx-[1-9][0-9]*$","description":"the segment to read in full"},` +
		`"about":{"type":"string","minLength":1,"maxLength":1024,"description":"words that a segment out of view is about"}}}`
	// OriginalSchema is the JSON Schema of the answer.
	OriginalSchema = `{"type":"object","additionalProperties":false,"required":["id","content_type","content"],"properties":{` +
		`"id":{"type":"string"},"content_type":{"type":"string"},"content":{"type":"string"},"encoding":{"const":"base64"}}}`
)

// Original is a segment in full.
type Original struct {
	ID          string `json:"id"`
	ContentType string `json:"content_type"`
	Content     string `json:"content"`
	// Encoding is "base64" if the content is not UTF-8, else missing.
	Encoding string `json:"encoding,omitempty"`
}

// Error codes that the model sees.
const (
	CodeUnknown  = "context.unknown_segment"
	CodeTooLarge = "context.too_large"
)

const maxAbout = 1024

type unfoldRequest struct {
	ID    string `json:"id,omitempty"`
	About string `json:"about,omitempty"`
}

func parseUnfold(doc []byte) (r unfoldRequest, err error) {
	if err := hashing.Unmarshal(doc, &r); err != nil {
		return r, err
	}

	switch {
	case (r.ID == "") == (r.About == ""):
		return r, errors.New("want either id or about")
	case len(r.About) > maxAbout:
		return r, fmt.Errorf("about of %d bytes, at most %d", len(r.About), maxAbout)
	case r.ID != "":
		_, err = parseID(r.ID)
	}
	return r, err
}

// CodeOf returns the error code under which the model sees an error of
// [Curator.Original].
func CodeOf(err error) (code string, ok bool) {
	switch {
	case errors.Is(err, ErrUnknownSegment):
		return CodeUnknown, true
	case errors.Is(err, ErrOverBudget):
		return CodeTooLarge, true
	}
	return "", false
}

// Original answers a request of the form UnfoldSchema with a document of the form
// OriginalSchema. It finds only segments of the given thread, which the pipeline
// names and the request cannot, and changes no tier. Its errors are
// ErrUnknownSegment and ErrOverBudget.
func (c *Curator) Original(ctx context.Context, thread pipeline.ThreadID, request []byte) ([]byte, error) {
	r, err := parseUnfold(request)
	if err != nil {
		return nil, err
	}
	s, err := c.find(ctx, thread, r)
	if err != nil {
		return nil, err
	}
	if s.TokenEstimate > c.cfg.Budget {
		return nil, fmt.Errorf("%s has about %d tokens, the budget is %d: %w", s.ID, s.TokenEstimate, c.cfg.Budget, ErrOverBudget)
	}

	data, err := c.cfg.Store.Original(ctx, thread, s.ID)
	if err != nil {
		return nil, err
	}
	o := Original{ID: s.ID.String(), ContentType: s.ContentType, Content: string(data)}
	if !utf8.Valid(data) {
		o.Content, o.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	}
	return json.Marshal(o)
}

// find returns the segment with the id, or the folded or evicted segment that is
// most relevant to the words, of equals the newest.
func (c *Curator) find(ctx context.Context, thread pipeline.ThreadID, r unfoldRequest) (Segment, error) {
	items, err := c.read(ctx, thread, r.About)
	if err != nil {
		return Segment{}, err
	}

	var best Segment
	for _, it := range items {
		switch {
		case r.ID != "":
			if it.ID.String() == r.ID {
				return it.Segment, nil
			}
		case it.Status != Expanded && it.Relevance > 0 && it.Relevance >= best.Relevance:
			best = it.Segment
		}
	}

	if best.ID == 0 {
		return best, fmt.Errorf("%.80q: %w", cmp.Or(r.ID, r.About), ErrUnknownSegment)
	}
	return best, nil
}

// Text formats the view for a prompt: each segment follows a line with its id, and
// the last line counts the segments out of view. The text of a segment may imitate
// such a line; only the model could be misled by it. The lines cost about 10 tokens
// each on top of View.Tokens.
func (v View) Text() string {
	var b strings.Builder
	for _, s := range v.Items {
		what := "in full"
		if s.Status == Folded {
			what = fmt.Sprintf("summary; in full it has about %d tokens", s.TokenEstimate)
		}
		fmt.Fprintf(&b, "[%s, %s, %s]\n%s\n\n", s.ID, s.ContentType, what, strings.ToValidUTF8(string(s.Content), "?"))
	}

	if v.Evicted > 0 {
		fmt.Fprintf(&b, "[%d more out of view]\n", v.Evicted)
	}
	return b.String()
}

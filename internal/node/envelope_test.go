package node

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/nip01"
	"github.com/lightwork-market/lightwork/schemas"
)

// carried is what no wire form may lose of an envelope.
type carried struct{ id, correlation, tag, payload string }

// TestOneEnvelopeManyForms: what a handler is given of one envelope is printed as
// a Nostr event, as a frame for an agent process and as a message, each by its own
// codec, and read back as it was.
func TestOneEnvelopeManyForms(t *testing.T) {
	requirements.Covers(t, "K-1")
	s, ok := schemas.Lookup(string(schemas.Embedding))
	if !ok {
		t.Fatal("no schema")
	}
	req, err := s.ParseRequest([]byte(`{"texts": ["grüß \"dich\"\n", "𝄞 </script> \\u0041 \u001f", "1e3"], "dimensions": 8,
		"verification": {"mode": "objective", "redundancy": 1, "adjudication": "none"}}`))
	if err != nil {
		t.Fatal(err)
	}
	// On the market the request's own id is both: it binds every byte of it.
	job := carried{tag: string(s.ID), payload: string(req.Canonical)}
	job.id = asEvent(t, job).id
	job.correlation = job.id
	other := job
	other.correlation = "root.job-7"
	for _, c := range []struct {
		name string
		want carried
		form func(*testing.T, carried) carried
	}{{"Nostr", job, asEvent}, {"OS", job, asFrame}, {"YE", job, asYE}, {"OS, correlated", other, asFrame}, {"YE, correlated", other, asYE}} {
		t.Run(c.name, func(t *testing.T) {
			envelope := c.want.throughPipeline(t)
			if envelope != c.want {
				t.Errorf("the envelope has\n%q, was\n%q", envelope, c.want)
			}
			if got := c.form(t, envelope); got != c.want {
				t.Errorf("read back\n%q, was\n%q", got, c.want)
			}
		})
	}
}

// throughPipeline is what the handler has of the message.
func (c carried) throughPipeline(t *testing.T) (got carried) {
	t.Helper()
	p, err := pipeline.New(pipeline.Config{
		Handlers: []pipeline.Handler{{
			Name: "embed", Description: "takes the job", Tags: []string{c.tag},
			Handle: func(ctx context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
				call := pipeline.CallFrom(ctx)
				got = carried{call.RequestID, call.CorrelationID, p.Tag, string(p.Bytes)}
				return pipeline.Silence(), nil
			},
		}},
		Profiles: []pipeline.Profile{{Name: jobsProfile, Handlers: []string{"embed"}}}, Journal: noJournal{}, Audit: noJournal{},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Submit(t.Context(), pipeline.Ingress{
		Namespace: jobsNamespace, Tag: c.tag, Payload: []byte(c.payload), Thread: "root", Profile: jobsProfile, Sender: marketSender,
		RequestID: c.id, CorrelationID: c.correlation,
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

type noJournal struct{}

func (noJournal) Append(context.Context, ...pipeline.Entry) error { return nil }
func (noJournal) Reject(context.Context, pipeline.Reject)         {}

// asEvent is the request of the job, signed by one key at one time: only the same
// bytes give the same id.
func asEvent(t *testing.T, c carried) carried {
	t.Helper()
	ev := nostr.Event{Kind: 5050, CreatedAt: 1700000000, Tags: nostr.Tags{{"param", "schema", c.tag}, {"i", c.payload, "text"}}}
	if err := ev.Sign(strings.Repeat("0", 63) + "1"); err != nil {
		t.Fatal(err)
	}
	back, err := nip01.ParseEvent(nip01.Marshal(&ev), nip01.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := nip01.Verify(&back); err != nil {
		t.Error(err)
	}
	job, err := receipts.RequestOf(back.Tags)
	if err != nil {
		t.Fatal(err)
	}
	return carried{back.ID, back.ID, job.SchemaID, string(job.Input)}
}

// asFrame is the call of an agent's tool.
func asFrame(t *testing.T, c carried) carried {
	t.Helper()
	var buf bytes.Buffer
	err := wire.EncodeFrame(&buf, &wire.Message{
		RequestID: c.id, CorrelationID: c.correlation,
		Payload: &wire.ToolCall{CallID: wire.NewID(), ToolID: wire.JoinToolID("com.example.text", c.tag), Input: []byte(c.payload)},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := frame.NewReader(&buf, 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	back, err := wire.Decode(doc, wire.Core)
	if err != nil {
		t.Fatal(err)
	}
	call := back.Payload.(*wire.ToolCall)
	_, tool, _ := call.ToolID.Split()
	return carried{back.RequestID, back.CorrelationID, tool, string(call.Input)}
}

// asYE is a command to do the job, in the context that a person's messages have.
func asYE(t *testing.T, c carried) carried {
	t.Helper()
	m, err := message.New(
		message.Agent{AgentID: "asker", InstanceID: "a-1"}, message.Agent{AgentID: "embedder", InstanceID: "e-1"},
		message.Command{Command: c.tag, Arguments: []byte(c.payload)},
		message.Context{SessionID: "root", RequestID: c.id, ConversationID: c.correlation, Locale: "en", Timezone: "UTC"}, time.Now(),
	)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := message.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	back, err := message.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	command, err := message.ContentOf[message.Command](back)
	if err != nil {
		t.Fatal(err)
	}
	return carried{back.Context.RequestID, back.Context.ConversationID, command.Command, string(command.Arguments)}
}

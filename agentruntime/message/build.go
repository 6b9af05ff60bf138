package message

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Lifetimes of errors and gaps, in seconds.
const (
	errorTTL = 60
	gapTTL   = 3600
)

// New returns a message whose type is that of content, in English JSON and without
// evidence. Priority and TTL are the defaults of the type. Set evidence and other
// fields on the result; [Encode] checks them. The error, an *Error, says that
// content cannot be written as JSON.
func New[C Content](from, to Agent, content C, c Context, now time.Time) (Message, error) {
	doc, err := json.Marshal(content)
	if err != nil {
		return Message{}, invalid("payload.content", "cannot be written")
	}
	m := Message{
		ID: wire.NewID(), Timestamp: now.UTC(), From: from, To: to, Type: typeOf(content),
		Payload: Payload{Content: jsontext.Value(doc), Format: FormatJSON, Language: English},
		Context: c, Priority: PriorityNormal, TTL: defaultTTL,
	}

	switch m.Type {
	case TypeError:
		m.Priority, m.TTL = PriorityHigh, errorTTL
	case TypeGap:
		m.Priority, m.TTL = PriorityLow, gapTTL
	}

	return m, nil
}

// Reply answers m to its sender, in m's context.
func Reply[C Content](m Message, content C, e Evidence, now time.Time) (Message, error) {
	answer, err := New(m.To, m.From, content, m.Context, now)
	if err != nil {
		return Message{}, err
	}
	answer.ReplyTo, answer.Evidence, answer.Payload.Language = m.ID, e, m.Payload.Language
	return answer, nil
}

// Fail answers m with an error message for err. Code and recoverable come from the
// error table.
func (m Message) Fail(err error, now time.Time) Message {
	e := FromError(err)
	content := Failure{Code: e.Code(), Message: wire.SafeText(e.Reason), Recoverable: e.Code().Recoverable()}
	if e.Field != "" {
		details, _ := json.Marshal(map[string]string{"field": wire.SafeText(e.Field)})
		content.Details = jsontext.Value(details)
	}
	// Marshalling cannot fail: SafeText made every text valid UTF-8.
	answer, _ := Reply(m, content, Evidence{}, now)
	return answer
}

// Retry returns m to be sent again: the same message and evidence, with a new time
// and a retryCount higher by one. The error, an *Error, says that m was sent too
// often.
func (m Message) Retry(now time.Time) (Message, error) {
	if m.RetryCount >= maxRetries {
		return Message{}, invalid("retryCount", "must be at most %d", maxRetries)
	}
	m.Timestamp = now.UTC()
	m.RetryCount++
	return m, nil
}

package message

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Contents of the nine types. Other members of a content are kept but have no
// meaning here. A jsontext.Value is any JSON value, nil if the member is absent.
type (
	// Query asks for information.
	Query struct {
		Question   string         `json:"question"`
		Parameters jsontext.Value `json:"parameters,omitzero"` // object
	}
	// Response answers a query: with Answer and the evidence for it, or with Gap if
	// there is no data.
	Response struct {
		Answer string         `json:"answer,omitzero"`
		Data   jsontext.Value `json:"data,omitzero"`
		Gap    *Gap           `json:"gap,omitzero"`
	}
	// Command asks for an action.
	Command struct {
		Command   string         `json:"command"`
		Arguments jsontext.Value `json:"arguments,omitzero"` // object
	}
	// event reports something that happened.
	event struct {
		Event string         `json:"event"`
		Data  jsontext.Value `json:"data,omitzero"`
	}
	// Failure is the content of an error message.
	Failure struct {
		Code        Code           `json:"code"`
		Message     string         `json:"message"`
		Details     jsontext.Value `json:"details,omitzero"` // object
		Recoverable bool           `json:"recoverable"`      // as the table says for the code
		Suggestion  string         `json:"suggestion,omitzero"`
	}
	// validation requests a judgement on a message or, with a Verdict, gives one.
	validation struct {
		Subject string `json:"subject"` // id of the judged message
		// Coverage is the percentage of claims that are cited. It determines the
		// verdict; each is present only with the other.
		Coverage       *float64        `json:"coverage,omitzero"`
		Verdict        verdict         `json:"verdict,omitzero"`
		Findings       []finding       `json:"findings,omitzero"`
		Contradictions []contradiction `json:"contradictions,omitzero"`
	}
	// finding is one violation of a law.
	finding struct {
		Law      Law      `json:"law"`
		Severity Severity `json:"severity"`
		Message  string   `json:"message"`
	}
	// contradiction lists values of one figure that differ by more than 10 %.
	contradiction struct {
		What   string  `json:"what"`
		Values []value `json:"values"`
	}
	// value is the value that one source gives.
	value struct {
		Source string  `json:"source"`
		Value  float64 `json:"value"`
	}
	// submission is the content of an evidence message: the claim that the evidence
	// supports.
	submission struct {
		Claim   string `json:"claim"`
		Subject string `json:"subject,omitzero"` // id of the message that made the claim
	}
	// Gap reports that data is missing.
	Gap struct {
		GapType          string         `json:"gapType"`
		Indicator        string         `json:"indicator"`
		Geography        string         `json:"geography,omitzero"`
		Period           string         `json:"period,omitzero"`
		Priority         string         `json:"priority,omitzero"` // free form; not the priority of the message
		SuggestedSources []string       `json:"suggestedSources,omitzero"`
		LastAvailable    *LastAvailable `json:"lastAvailable,omitzero"`
	}
	// LastAvailable is the newest data that is available instead.
	LastAvailable struct {
		Period string         `json:"period"`
		Value  jsontext.Value `json:"value"`
		Source string         `json:"source"`
	}
	// correction requests the replacement of a part of an earlier message.
	correction struct {
		Subject     string         `json:"subject"` // id of the message to correct
		Field       string         `json:"field"`   // JSON pointer into that message
		Replacement jsontext.Value `json:"replacement"`
		Reason      string         `json:"reason"`
	}
)

// Content is one of the contents above.
type Content interface {
	Query | Response | Command | event | Failure | validation | submission | Gap | correction
}

// ContentOf decodes the content of a JSON message, whose type must match C:
//
//	q, err := message.ContentOf[message.Query](m)
//
// If a query or a response is plain text, Question or Answer is that text.
func ContentOf[C Content](m Message) (C, error) {
	var c C
	if typeOf(c) != m.Type {
		return c, invalid("type", "is %s, not %s", m.Type, typeOf(c))
	}
	doc := m.Payload.Content
	if m.Payload.Format != FormatJSON {
		name := "question"
		if m.Type == TypeResponse {
			name = "answer"
		}
		doc = jsontext.Value(`{"` + name + `":` + string(doc) + `}`)
	}

	if err := json.Unmarshal(doc, &c); err != nil {
		return c, invalid("payload.content", "does not decode")
	}
	return c, nil
}

// typeOf returns the message type of a content.
func typeOf[C Content](c C) Type {
	switch any(c).(type) {
	case Query:
		return TypeQuery
	case Response:
		return TypeResponse
	case Command:
		return TypeCommand
	case event:
		return TypeEvent
	case Failure:
		return TypeError
	case validation:
		return TypeValidation
	case submission:
		return TypeEvidence
	case Gap:
		return TypeGap
	}

	return TypeCorrection
}

// checkContent makes the checks that a shape cannot express.
func checkContent(m Message) *Error {
	switch m.Type {
	case TypeError:
		return checkFailure(m)
	case TypeValidation:
		return checkValidation(m)
	}
	return nil
}

func checkFailure(m Message) *Error {
	c, err := ContentOf[Failure](m)
	if err != nil {
		return FromError(err)
	}
	if want := c.Code.Recoverable(); c.Recoverable != want {
		return invalid("payload.content.recoverable", "must be %v for %s", want, c.Code)
	}
	return nil
}

func checkValidation(m Message) *Error {
	c, err := ContentOf[validation](m)
	if err != nil {
		return FromError(err)
	}
	if (c.Coverage == nil) != (c.Verdict == "") {
		return invalid("payload.content.verdict", "and coverage come together")
	}
	if c.Coverage != nil && c.Verdict != judge(*c.Coverage) {
		return invalid("payload.content.verdict", "must be %s for this coverage", judge(*c.Coverage))
	}

	for i, contradiction := range c.Contradictions {
		if !contradiction.differs() {
			return invalid(fmt.Sprintf("payload.content.contradictions.%d", i), "has no two values that differ by more than 10 %%")
		}
	}

	return nil
}

func (c contradiction) differs() bool {
	least, most := c.Values[0].Value, c.Values[0].Value
	for _, v := range c.Values[1:] {
		least, most = min(least, v.Value), max(most, v.Value)
	}
	return contradict(least, most)
}

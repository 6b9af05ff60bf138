package message

import (
	"net/url"
	"regexp"
	"time"
)

// Bounds of a message.
const (
	// maxBytes is the maximum length of a message.
	maxBytes = 1 << 20
	// maxTTL is the longest lifetime of a message, in seconds: 30 days.
	maxTTL = 30 * 24 * 3600

	maxSources, maxCitations, maxProvenance = 256, 1024, 1024

	maxID, maxName, maxLine, maxURL, maxText = 256, 256, 4096, 2048, 65536
	maxRetries                               = 1000
	maxFindings                              = 256
)

var (
	uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)
	timeForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)
	// An agent id is the name of a handler in the pipeline.
	agentForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)
	wordForm     = regexp.MustCompile(`^[!-~]+$`)
	localeForm   = regexp.MustCompile(`^[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*$`)
	timezoneForm = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)
	urlForm      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$`)
	pointerForm  = regexp.MustCompile(`^(/[^/]*)+$`)
)

func formed(form *regexp.Regexp, maxLen int) shape {
	s := text(1, maxLen)
	s.pattern = form
	return s
}

func uuidShape() shape {
	s := shape{kind: "string", pattern: uuidForm}
	return s.noted("UUID v4")
}

func timeShape() shape {
	return shape{kind: "string", pattern: timeForm, format: "date-time", more: func(v string) string {
		if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
			return "is not a date and time"
		}
		return ""
	}}
}

func urlShape() shape {
	s := formed(urlForm, maxURL)
	s.more = func(v string) string {
		if u, err := url.Parse(v); err != nil || !u.IsAbs() {
			return "is not an absolute URL"
		}
		return ""
	}
	return s
}

func agentShape() shape {
	return object(need("agentId", formed(agentForm, maxName)), need("instanceId", formed(wordForm, maxName)))
}

func contextShape() shape {
	return object(
		need("sessionId", formed(wordForm, maxID)), need("requestId", formed(wordForm, maxID)),
		need("locale", formed(localeForm, maxName)), need("timezone", formed(timezoneForm, maxName)),
		may("userId", formed(wordForm, maxID)), may("conversationId", formed(wordForm, maxID)),
	)
}

// Evidence records may have further members without meaning here: the specification
// shows them only by example.
func evidenceShape() shape {
	return object(
		need("sources", list(maxSources, openObject(
			need("id", text(1, maxID)), need("name", text(1, maxName)), may("type", text(0, maxName)), may("url", urlShape()),
		))),
		need("confidence", number(0, 100)),
		need("citations", list(maxCitations, openObject(
			need("text", text(1, maxLine)), need("source", text(1, maxName)), may("date", text(0, maxName)), may("url", urlShape()),
		))),
		need("provenance", list(maxProvenance, openObject(
			need("entity", text(1, maxName)), need("wasGeneratedBy", text(1, maxName)), may("wasDerivedFrom", text(1, maxName)),
			may("wasAttributedTo", text(1, maxName)), may("generatedAtTime", timeShape()),
		))),
	)
}

func gapShape() shape {
	return openObject(
		need("gapType", text(1, maxName)), need("indicator", text(1, maxLine)), may("geography", text(0, maxName)),
		may("period", text(0, maxName)), may("priority", text(0, maxName)), may("suggestedSources", list(maxSources, text(1, maxName))),
		may("lastAvailable", openObject(need("period", text(1, maxName)), need("value", shape{}), need("source", text(1, maxName)))),
	)
}

// contentShape returns the shape of a JSON content.
func contentShape(t Type) shape {
	switch t {
	case TypeQuery:
		return openObject(need("question", text(1, maxText)), may("parameters", openObject()))
	case TypeResponse:
		s := openObject(may("answer", text(1, maxText)), may("data", shape{}), may("gap", gapShape()))
		s.oneOf = []string{"answer", "gap"}
		return s
	case TypeCommand:
		return openObject(need("command", text(1, maxName)), may("arguments", openObject()))
	case TypeEvent:
		return openObject(need("event", text(1, maxName)), may("data", shape{}))
	case TypeError:
		return openObject(
			need("code", oneWord(codes()...)), need("message", text(0, maxLine)), may("details", openObject()),
			need("recoverable", shape{kind: "boolean"}), may("suggestion", text(0, maxLine)),
		)
	case TypeValidation:
		return validationShape()
	case TypeEvidence:
		return openObject(need("claim", text(1, maxText)), may("subject", uuidShape()))
	case TypeGap:
		return gapShape()
	}

	return openObject(
		need("subject", uuidShape()), need("field", formed(pointerForm, maxLine)), need("replacement", shape{}), need("reason", text(1, maxLine)),
	)
}

func validationShape() shape {
	values := list(maxSources, openObject(need("source", text(1, maxName)), need("value", shape{kind: "number", min: -maxNumber, max: maxNumber})))
	values.minItems = 2
	return openObject(
		need("subject", uuidShape()), may("coverage", number(0, 100)), may("verdict", oneWord(pass, passWarn, fail)),
		may("findings", list(maxFindings, openObject(
			need("law", oneWord(laws()...)), need("severity", oneWord(Critical, Major, Minor)), need("message", text(0, maxLine)),
		))),
		may("contradictions", list(maxFindings, openObject(need("what", text(1, maxLine)), need("values", values)))),
	)
}

// maxNumber keeps sums and differences of values finite.
const maxNumber = 1e300

// payloadShape returns the shape of a payload in a format. Only queries and
// responses can be plain text: the other contents have several required members.
func payloadShape(t Type, f Format) shape {
	content := contentShape(t)
	formats := oneWord(FormatJSON)
	if f != FormatJSON {
		content, formats = text(1, maxText), oneWord(FormatText, FormatMarkdown)
	}
	return object(
		need("format", formats), need("content", content),
		need("language", oneWord(English, Arabic)), need("encoding", oneWord(encodingUTF8)),
	)
}

func mayBeText(t Type) bool { return t == TypeQuery || t == TypeResponse }

// envelopeShape returns the shape of a message with this payload. Members that
// YE-V1 does not require may be absent in received messages (K-18).
func envelopeShape(types []Type, payload shape) shape {
	s := object(
		need("id", uuidShape()), need("timestamp", timeShape()), need("version", oneWord(Version)),
		need("from", agentShape()), need("to", agentShape()), need("type", oneWord(types...)), need("payload", payload),
		may("replyTo", uuidShape()), may("context", contextShape()), may("evidence", evidenceShape()),
		may("priority", oneWord(PriorityHigh, PriorityNormal, PriorityLow)),
		may("ttl", integer(1, maxTTL).noted("seconds")), may("retryCount", integer(0, maxRetries)),
	)
	if len(types) == 1 && types[0] == TypeResponse {
		for i, f := range s.fields {
			if f.name == "replyTo" || f.name == "evidence" {
				s.fields[i].optional = false
			}
		}
	}
	return s
}

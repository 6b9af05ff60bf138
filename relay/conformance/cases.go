package conformance

import (
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// cases returns all exchanges, by NIP.
func cases() []exchange {
	var all []exchange
	for _, part := range [][]exchange{publishing(), querying(), subscribing(), replacing(), deleting(), expiring(), authenticating(), counting()} {
		all = append(all, part...)
	}
	return all
}

func note(content string, age int, tags ...nostr.Tag) nostr.Event {
	return nostr.Event{Kind: 1, Content: content, CreatedAt: nostr.Timestamp(-age), Tags: tags}
}

// two returns the events a, from 20 seconds ago, and b, from 10 seconds ago.
func two() map[string]nostr.Event {
	return map[string]nostr.Event{"a": note("a", 20, nostr.Tag{"t", "x"}), "b": note("b", 10, nostr.Tag{"t", "y"}, nostr.Tag{"r", "z"})}
}

const putTwo = `
	1> ["EVENT",{a}]
	1< ["OK","{a.id}",true,"*"]
	1> ["EVENT",{b}]
	1< ["OK","{b.id}",true,"*"]
	`

func publishing() []exchange {
	one := map[string]nostr.Event{"a": note("one", 0)}

	return []exchange{
		{
			name: "publish", says: "NIP-01: OK messages MUST be sent in response to EVENT messages received from clients",
			events: one,
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			2> ["REQ","s",{"ids":["{a.id}"]}]
			2< ["EVENT","s",{a}]
			2< ["EOSE","s"]`,
		},

		{
			name: "duplicate", says: `NIP-01: ["OK", "b1a649ebe8...", true, "duplicate: already have this event"]`,
			events: one,
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["REQ","s",{"ids":["{a.id}"]}]
			1< ["EVENT","s",{a}]
			1< ["EOSE","s"]`,
		},

		{
			name: "wrong id", says: "NIP-01: otherwise it MUST be a string formed by a machine-readable single-word prefix followed by a :",
			events: one,
			change: func(evs map[string]*nostr.Event) { evs["a"].Content = "changed" },
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",false,"invalid: *"]
			1> ["REQ","s",{"ids":["{a.id}"]}]
			1< ["EOSE","s"]`,
		},

		{
			name: "wrong signature", says: "NIP-01: false when an event has not been accepted",
			events: one,
			change: func(evs map[string]*nostr.Event) {
				last := evs["a"].Sig[127]
				evs["a"].Sig = evs["a"].Sig[:127] + string('0'+(last-'0'+1)%8)
			},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",false,"invalid: *"]
			1> ["REQ","s",{"ids":["{a.id}"]}]
			1< ["EOSE","s"]`,
		},

		{
			name: "kind too large", says: "NIP-01: kind: <integer between 0 and 65535>",
			events: map[string]nostr.Event{"a": {Kind: 65536}},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",false,"*"]`,
		},

		{
			name: "characters", says: "NIP-01: all other characters must be included verbatim",
			events: map[string]nostr.Event{"a": note("\n\"\\\r\t\b\f / é 😀 \u2028 <&>", 0, nostr.Tag{"t", "\"\\"})},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["REQ","s",{"authors":["{alice}"],"#t":["\"\\"]}]
			1< ["EVENT","s",{a}]
			1< ["EOSE","s"]`,
		},

		{
			name: "garbage", says: "NIP-01: messages must be JSON arrays; one that is not must not cost the subscriptions of the connection",
			events: one,
			lines: `1> ["REQ","s",{"authors":["{alice}"]}]
			1< ["EOSE","s"]
			1> {"not":"an array"}
			1> not even JSON
			2> ["EVENT",{a}]
			2< ["OK","{a.id}",true,"*"]
			1< ["EVENT","s",{a}]`,
		},
	}
}

func querying() []exchange {
	return []exchange{
		{
			name: "any filter", says: "NIP-01: multiple filters are to be interpreted as || conditions",
			events: two(),
			lines: putTwo + `1> ["REQ","s",{"authors":["{alice}"],"#t":["x"]},{"authors":["{bob}"]}]
			1< ["EVENT","s",{a}]
			1< ["EOSE","s"]`,
		},

		{
			name: "all conditions", says: "NIP-01: multiple conditions are interpreted as && conditions",
			events: two(),
			lines: putTwo + `1> ["REQ","s",{"authors":["{alice}"],"kinds":[1],"#t":["x","y"],"#r":["z"]}]
			1< ["EVENT","s",{b}]
			1< ["EOSE","s"]
			1> ["REQ","s",{"authors":["{alice}"],"kinds":[2]}]
			1< ["EOSE","s"]`,
		},

		{
			name: "time range", says: "NIP-01: an event matches a filter if since <= created_at <= until holds",
			events: two(),
			lines: putTwo + `1> ["REQ","s",{"authors":["{alice}"],"since":{b.created_at}}]
			1< ["EVENT","s",{b}]
			1< ["EOSE","s"]
			1> ["REQ","s",{"authors":["{alice}"],"until":{a.created_at}}]
			1< ["EVENT","s",{a}]
			1< ["EOSE","s"]`,
		},

		{
			name: "newest first", says: "NIP-01: the last n events ordered by the created_at. Newer events should appear first",
			events: two(),
			lines: putTwo + `1> ["REQ","s",{"authors":["{alice}"],"limit":2}]
			1< ["EVENT","s",{b}]
			1< ["EVENT","s",{a}]
			1< ["EOSE","s"]
			1> ["REQ","s",{"authors":["{alice}"],"limit":1}]
			1< ["EVENT","s",{b}]
			1< ["EOSE","s"]`,
		},

		{
			name: "long subscription id", says: "NIP-01: <subscription_id> is an arbitrary, non-empty string of max length 64 chars",
			lines: `1> ["REQ","` + strings.Repeat("s", 64) + `",{"authors":["{alice}"]}]
			1< ["EOSE","` + strings.Repeat("s", 64) + `"]`,
		},
	}
}

func subscribing() []exchange {
	three := map[string]nostr.Event{"a": note("a", 0), "b": note("b", 1), "c": note("c", 2)}
	const put = `
			1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			`

	return []exchange{
		{
			name: "live", says: "NIP-01: Any new events it receives SHOULD be sent to that same websocket",
			events: three,
			lines: `2> ["REQ","s",{"authors":["{alice}"]}]
			2< ["EOSE","s"]
			3> ["REQ","s",{"authors":["{bob}"]}]
			3< ["EOSE","s"]` + put + `2< ["EVENT","s",{a}]
			3> ["REQ","t",{"authors":["{bob}"]}]
			3< ["EOSE","t"]`,
		},

		{
			name: "close", says: "NIP-01: until the connection is closed, a CLOSE event is received with the same <subscription_id>",
			events: three,
			lines: `2> ["REQ","s",{"authors":["{alice}"]}]
			2< ["EOSE","s"]
			2> ["CLOSE","s"]
			2> ["REQ","t",{"authors":["{bob}"]}]
			2< ["EOSE","t"]` + put + `2> ["REQ","u",{"authors":["{bob}"]}]
			2< ["EOSE","u"]`,
		},

		{
			name: "replace", says: "NIP-01: a new REQ is sent using the same <subscription_id> (in which case a new subscription is created, replacing the old one)",
			events: three,
			lines: `2> ["REQ","s",{"authors":["{alice}"]}]
			2< ["EOSE","s"]
			2> ["REQ","s",{"authors":["{bob}"]}]
			2< ["EOSE","s"]` + put + `2> ["REQ","u",{"authors":["{bob}"]}]
			2< ["EOSE","u"]`,
		},

		{
			name: "ids of two connections", says: "NIP-01: Relays MUST manage <subscription_id>s independently for each WebSocket connection",
			events: three,
			lines: `2> ["REQ","s",{"authors":["{alice}"]}]
			2< ["EOSE","s"]
			3> ["REQ","s",{"authors":["{alice}"]}]
			3< ["EOSE","s"]
			3> ["CLOSE","s"]
			3> ["REQ","t",{"authors":["{bob}"]}]
			3< ["EOSE","t"]` + put + `2< ["EVENT","s",{a}]
			3> ["REQ","u",{"authors":["{bob}"]}]
			3< ["EOSE","u"]`,
		},

		{
			name: "no stored events", says: "NIP-01: The limit property of a filter is only valid for the initial query and MUST be ignored afterwards",
			events: three,
			lines: put + `2> ["REQ","s",{"authors":["{alice}"],"limit":0}]
			2< ["EOSE","s"]
			1> ["EVENT",{b}]
			1< ["OK","{b.id}",true,"*"]
			2< ["EVENT","s",{b}]
			1> ["EVENT",{c}]
			1< ["OK","{c.id}",true,"*"]
			2< ["EVENT","s",{c}]`,
		},

		{
			name: "ephemeral", says: "NIP-01: events are ephemeral, which means they are not expected to be stored by relays",
			events: map[string]nostr.Event{"a": {Kind: 20001}},
			lines: `2> ["REQ","s",{"authors":["{alice}"]}]
			2< ["EOSE","s"]` + put + `2< ["EVENT","s",{a}]
			3> ["REQ","s",{"authors":["{alice}"]}]
			3< ["EOSE","s"]`,
		},
	}
}

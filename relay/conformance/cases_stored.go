package conformance

import (
	"github.com/nbd-wtf/go-nostr"
)

func replacing() []exchange {
	const onlyNew = `1> ["REQ","s",{"authors":["{alice}"]}]
			1< ["EVENT","s",{new}]
			1< ["EOSE","s"]`
	pair := func(kind int, tags ...nostr.Tag) map[string]nostr.Event {
		return map[string]nostr.Event{
			"old": {Kind: kind, CreatedAt: -20, Content: "old", Tags: tags},
			"new": {Kind: kind, CreatedAt: -10, Content: "new", Tags: tags},
		}
	}

	return []exchange{
		{
			name: "replaceable", says: "NIP-01: for each combination of pubkey and kind, only the latest event MUST be stored by relays",
			events: pair(10002),
			lines: `1> ["EVENT",{old}]
			1< ["OK","{old.id}",true,"*"]
			1> ["EVENT",{new}]
			1< ["OK","{new.id}",true,"*"]
			` + onlyNew,
		},

		{
			name: "replaceable, out of order", says: "NIP-01: only the latest event MUST be stored by relays",
			events: pair(0),
			lines: `1> ["EVENT",{new}]
			1< ["OK","{new.id}",true,"*"]
			2> ["EVENT",{old}]
			2> ["REQ","t",{"authors":["{bob}"]}]
			` + onlyNew,
		},

		{
			name: "addressable", says: "NIP-01: for each combination of kind, pubkey and the d tag value, only the latest event MUST be stored by relays",
			events: map[string]nostr.Event{
				"old":   {Kind: 31990, CreatedAt: -30, Tags: nostr.Tags{{"d", "one"}}},
				"other": {Kind: 31990, CreatedAt: -20, Tags: nostr.Tags{{"d", "two"}}},
				"new":   {Kind: 31990, CreatedAt: -10, Tags: nostr.Tags{{"d", "one"}}},
			},
			lines: `1> ["EVENT",{old}]
			1< ["OK","{old.id}",true,"*"]
			1> ["EVENT",{other}]
			1< ["OK","{other.id}",true,"*"]
			1> ["EVENT",{new}]
			1< ["OK","{new.id}",true,"*"]
			1> ["REQ","s",{"authors":["{alice}"]}]
			1< ["EVENT","s",{new}]
			1< ["EVENT","s",{other}]
			1< ["EOSE","s"]`,
		},
	}
}

func deleting() []exchange {
	return []exchange{
		{
			name: "deletion", says: "NIP-09: Relays SHOULD delete or stop publishing any referenced events that have an identical pubkey as the deletion request; Relays SHOULD continue to publish/share the deletion request events indefinitely",
			events: map[string]nostr.Event{"a": note("a", 20), "gone": {Kind: 5, Tags: nostr.Tags{{"e", "{a.id}"}, {"k", "1"}}}},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["EVENT",{gone}]
			1< ["OK","{gone.id}",true,"*"]
			1> ["REQ","s",{"authors":["{alice}"]}]
			1< ["EVENT","s",{gone}]
			1< ["EOSE","s"]`,
		},

		{
			name: "deletion by another", says: "NIP-09: that have an identical pubkey as the deletion request",
			events: map[string]nostr.Event{"a": note("a", 20), "gone": {PubKey: "bob", Kind: 5, Tags: nostr.Tags{{"e", "{a.id}"}}}},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["EVENT",{gone}]
			1< ["OK","{gone.id}","**","*"]
			1> ["REQ","s",{"authors":["{alice}"]}]
			1< ["EVENT","s",{a}]
			1< ["EOSE","s"]`,
		},

		{
			name: "deleted event comes again", says: "NIP-09: Relays SHOULD delete or stop publishing any referenced events",
			events: map[string]nostr.Event{"a": note("a", 20), "gone": {Kind: 5, Tags: nostr.Tags{{"e", "{a.id}"}}}},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["EVENT",{gone}]
			1< ["OK","{gone.id}",true,"*"]
			1> ["EVENT",{a}]
			1< ["OK","{a.id}","**","*"]
			1> ["REQ","s",{"ids":["{a.id}"]}]
			1< ["EOSE","s"]`,
		},

		{
			name: "deletion by address", says: "NIP-09: When an a tag is used, relays SHOULD delete all versions of the replaceable event up to the created_at timestamp of the deletion request event",
			events: map[string]nostr.Event{
				"a":    {Kind: 31990, CreatedAt: -20, Tags: nostr.Tags{{"d", "x"}}},
				"gone": {Kind: 5, CreatedAt: -10, Tags: nostr.Tags{{"a", "31990:{alice}:x"}}},
				"new":  {Kind: 31990, CreatedAt: -5, Tags: nostr.Tags{{"d", "x"}}},
			},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["EVENT",{gone}]
			1< ["OK","{gone.id}",true,"*"]
			1> ["REQ","s",{"authors":["{alice}"],"kinds":[31990]}]
			1< ["EOSE","s"]
			2> ["EVENT",{new}]
			2< ["OK","{new.id}",true,"*"]
			3> ["REQ","s",{"authors":["{alice}"],"kinds":[31990]}]
			3< ["EVENT","s",{new}]
			3< ["EOSE","s"]`,
		},

		{
			name: "deletion of a deletion", says: "NIP-09: Publishing a deletion request event against a deletion request has no effect",
			events: map[string]nostr.Event{
				"a":    note("a", 20),
				"gone": {Kind: 5, CreatedAt: -10, Tags: nostr.Tags{{"e", "{a.id}"}}},
				"undo": {Kind: 5, CreatedAt: -5, Tags: nostr.Tags{{"e", "{gone.id}"}}},
			},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["EVENT",{gone}]
			1< ["OK","{gone.id}",true,"*"]
			1> ["EVENT",{undo}]
			1< ["OK","{undo.id}","**","*"]
			1> ["REQ","s",{"ids":["{gone.id}"]}]
			1< ["EVENT","s",{gone}]
			1< ["EOSE","s"]`,
		},
	}
}

func expiring() []exchange {
	return []exchange{
		{
			name: "expired", says: "NIP-40: Relays SHOULD drop any events that are published to them if they are expired",
			events: map[string]nostr.Event{"a": note("a", 20, nostr.Tag{"expiration", "1600000000"})},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",false,"*"]
			1> ["REQ","s",{"ids":["{a.id}"]}]
			1< ["EOSE","s"]`,
		},

		{
			name: "not yet expired", says: "NIP-40: a unix timestamp at which the message SHOULD be considered expired",
			events: map[string]nostr.Event{"a": note("a", 20, nostr.Tag{"expiration", "4000000000"})},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]
			1> ["REQ","s",{"ids":["{a.id}"]}]
			1< ["EVENT","s",{a}]
			1< ["EOSE","s"]`,
		},
	}
}

func authenticating() []exchange {
	protected := note("mine", 0, nostr.Tag{"-"})
	proof := func(key, challenge string) nostr.Event {
		return nostr.Event{PubKey: key, Kind: 22242, Tags: nostr.Tags{{"relay", "{url}"}, {"challenge", challenge}}}
	}
	const refused = `1> ["EVENT",{a}]
			1< ["OK","{a.id}",false,"auth-required: *"]
			`

	return []exchange{
		{
			name: "protected", says: `NIP-70: The default behavior of a relay MUST be to reject any event that contains ["-"]`,
			events: map[string]nostr.Event{"a": protected},
			lines: `1> ["EVENT",{a}]
			1< ["OK","{a.id}",false,"*"]
			1> ["REQ","s",{"ids":["{a.id}"]}]
			1< ["EOSE","s"]`,
		},

		{
			name: "author proved", says: "NIP-70: only accept the event if the authenticated client has the same pubkey as the event being published; NIP-42: AUTH messages sent by clients MUST be answered with an OK message",
			events: map[string]nostr.Event{"a": protected, "proof": proof("", "{challenge}")},
			lines: refused + `1> ["AUTH",{proof}]
			1< ["OK","{proof.id}",true,"*"]
			1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]`,
		},

		{
			name: "another proved", says: "NIP-70: check if the authenticated client has the same pubkey as the event being published",
			events: map[string]nostr.Event{"a": protected, "proof": proof("bob", "{challenge}")},
			lines: refused + `1> ["AUTH",{proof}]
			1< ["OK","{proof.id}",true,"*"]
			1> ["EVENT",{a}]
			1< ["OK","{a.id}",false,"*"]`,
		},

		{
			name: "several keys", says: "NIP-42: Clients MAY provide signed events from multiple pubkeys in a sequence of AUTH messages. Relays MUST treat all pubkeys as authenticated accordingly",
			events: map[string]nostr.Event{"a": protected, "first": proof("", "{challenge}"), "second": proof("bob", "{challenge}")},
			lines: refused + `1> ["AUTH",{first}]
			1< ["OK","{first.id}",true,"*"]
			1> ["AUTH",{second}]
			1< ["OK","{second.id}",true,"*"]
			1> ["EVENT",{a}]
			1< ["OK","{a.id}",true,"*"]`,
		},

		{
			name: "wrong challenge", says: "NIP-42: that the challenge tag matches the challenge sent before",
			events: map[string]nostr.Event{"a": protected, "proof": proof("", "another")},
			lines: refused + `1> ["AUTH",{proof}]
			1< ["OK","{proof.id}",false,"*"]
			` + refused,
		},

		{
			name: "proof as an event", says: "NIP-42: Relays MUST exclude kind: 22242 events from being broadcasted to any client",
			events: map[string]nostr.Event{"proof": proof("", "x")},
			lines: `2> ["REQ","s",{"authors":["{alice}"]}]
			2< ["EOSE","s"]
			1> ["EVENT",{proof}]
			1< ["OK","{proof.id}","**","*"]
			2> ["REQ","t",{"authors":["{bob}"]}]
			2< ["EOSE","t"]`,
		},
	}
}

func counting() []exchange {
	return []exchange{
		{
			name: "count", says: `NIP-45: ["COUNT", <query_id>, {"count": <integer>}]`,
			events: two(),
			lines: putTwo + `1> ["COUNT","n",{"authors":["{alice}"]}]
			1< ["COUNT","n",{"count":2}]
			1> ["COUNT","n",{"authors":["{alice}"],"#t":["x"]}]
			1< ["COUNT","n",{"count":1}]
			1> ["COUNT","n",{"authors":["{bob}"]}]
			1< ["COUNT","n",{"count":0}]`,
		},

		{
			name: "count of several filters", says: "NIP-45: Multiple filters are OR'd together and aggregated into a single count result",
			events: two(),
			lines: putTwo + `1> ["COUNT","n",{"authors":["{alice}"],"#t":["x","y"]},{"authors":["{alice}"],"#t":["x"]}]
			1< ["COUNT","n",{"count":2}]`,
		},
	}
}

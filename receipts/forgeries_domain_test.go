package receipts_test

import (
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
)

// otherDomains are events that are what they should be but for the tag that says
// so, each signed by the right key.
func otherDomains() []scenario {
	hooks := map[string]func(*recipe, func(*receipts.Event)){
		"receipt":    func(r *recipe, f func(*receipts.Event)) { r.receiptEvent = f },
		"request":    func(r *recipe, f func(*receipts.Event)) { r.request = f },
		"result":     func(r *recipe, f func(*receipts.Event)) { r.resultEvent = f },
		"acceptance": func(r *recipe, f func(*receipts.Event)) { r.acceptEvent = f },
	}
	own := map[string]domain.Domain{
		"receipt": domain.Receipt, "request": domain.Request, "result": domain.Result, "acceptance": domain.Acceptance,
	}
	replaced := func(tags ...[]string) func(*receipts.Event) {
		return func(ev *receipts.Event) {
			ev.Tags = slices.DeleteFunc(slices.Clone(ev.Tags), func(tag []string) bool { return tag[0] == domain.TagName })
			ev.Tags = append(ev.Tags, tags...)
		}
	}
	var all []scenario
	for _, p := range signedParts() {
		add := func(name, about string, change func(*receipts.Event), want states) {
			s := scenario{name: p.name + "_" + name, about: sentence(about, p.name), want: want}
			hooks[p.name](&s.recipe, change)
			all = append(all, s)
		}
		// A request may come from a program that knows no domains.
		without := p.want
		if p.name == "request" {
			without = nil
		}
		add("without_domain", "the %s event names no domain", replaced(), without)
		mine := string(own[p.name])
		add("domain_twice", "the %s event has its domain twice", replaced(own[p.name].Tag(), own[p.name].Tag()), p.want)
		add("domain_without_value", "the domain of the %s event is empty", replaced([]string{domain.TagName, ""}), p.want)
		add("domain_of_one_item", "the domain tag of the %s event has no value", replaced([]string{domain.TagName}), p.want)
		add("domain_of_three_items", "the domain tag of the %s event has two values", replaced([]string{domain.TagName, mine, mine}), p.want)
		add("domain_in_capitals", "the domain of the %s event has another case", replaced([]string{domain.TagName, "Lightwork" + mine[9:]}), p.want)
		for _, other := range domain.All() {
			if other != own[p.name] {
				add("as_"+string(other[10:len(other)-3]), "the %s event names the domain of another document", replaced(other.Tag()), p.want)
			}
		}
		add("and_another_domain", "the %s event names its domain and another one", func(ev *receipts.Event) {
			ev.Tags = append(ev.Tags, domain.Feedback.Tag())
		}, p.want)
	}
	kinds := recipe{
		acceptEvent:  func(ev *receipts.Event) { ev.Kind = 9001 },
		receiptEvent: func(ev *receipts.Event) { ev.Kind = 9002 },
	}
	return append(all, scenario{
		name: "valid_other_kinds", about: "acceptance and receipt have kinds that were configured: their domains say what they are", recipe: kinds,
	})
}

// twoReadings are requests whose terms one reader could take for something else
// than another does.
func twoReadings() []scenario {
	refused := states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: receipts.NotProvable}
	var all []scenario
	add := func(name, about string, tags func([][]string) [][]string) {
		all = append(all, scenario{
			name: "terms_" + name, about: about, want: refused,
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags = tags(ev.Tags) }},
		})
	}
	more := func(tags ...[]string) func([][]string) [][]string {
		return func(have [][]string) [][]string { return append(have, tags...) }
	}
	bid := func(text string) func([][]string) [][]string {
		return func(have [][]string) [][]string {
			have[3] = []string{"bid", text}
			return have
		}
	}
	for name, text := range map[string]string{
		"sign": "+50000", "zeros": "0000050000", "space": " 50000", "fraction": "50000.0", "exponent": "5e4", "words": "lots", "nothing": "", "negative": "-50000",
		"2_53": "9007199254740992", "2_63": "9223372036854775807", "2_64": "18446744073709551616",
	} {
		add("bid_"+name, "the bid is written as no reader may take it", bid(text))
	}
	add("bid_without_value", "the tag bid has no value", func(have [][]string) [][]string {
		have[3] = []string{"bid"}
		return have
	})
	add("two_bids", "the request has two bids", more([]string{"bid", "50000"}))
	add("two_modes", "the request asks for a mode twice", more([]string{"param", "payment_mode", "hold"}, []string{"param", "payment_mode", "hold"}))
	add("mode_without_value", "the request asks for a mode and names none", more([]string{"param", "payment_mode"}))
	add("two_deliveries", "the request asks for two deliveries", more([]string{"param", "delivery", "plain"}, []string{"param", "delivery", "sealed"}))
	add("two_agreements", "the request is two seats", more([]string{"param", "agreement", "commit"}, []string{"param", "agreement", "judge"}))
	add("two_refunds", "the request names two places for a refund", more([]string{"param", "refund", "a@b.example"}, []string{"param", "refund", "c@d.example"}))
	add("provider_without_key", "the request names a provider without a key", more([]string{"p"}))
	add("provider_in_capitals", "the request names a provider beside this one in another spelling", more([]string{"p", strings.ToUpper(xOnly(person("provider")))}))
	add("wide_tag", "a tag of the request has more items than an event's may", more(make([]string, 1001)))
	return all
}

package receipts_test

import (
	"slices"

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

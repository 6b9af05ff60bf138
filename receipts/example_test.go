package receipts_test

import (
	"errors"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/receipts"
)

// A bundle is verified by somebody who knows both keys and the network, and not
// which Lightning node was to be paid. A folder is read by ReadBundle.
func ExampleVerify() {
	bundle := recipe{}.make().bundle
	known := pins()
	known.Payee, known.Required = "", nil

	report := receipts.Verify(bundle, known)
	fmt.Println("all that is required is proved:", report.ExitCode() == receipts.ExitProved)
	fmt.Println("only said by the bundle itself:", report.SelfAsserted)
	for _, c := range report.Claims {
		if c.State != receipts.Proved {
			fmt.Printf("%s: %s, %s\n", c.Name, c.State, c.Reason)
		}
	}
	// Output:
	// all that is required is proved: true
	// only said by the bundle itself: [payee]
	// payee_pinned: not provable, the payee is the pinned one: no payee is pinned, and any signature gives some key
}

// A bundle came as a folder, and somebody has put another result in it. The claims
// that do not rest on it are proved as before, and the one that fails says why.
func ExampleReadBundle() {
	folder := fstest.MapFS{} // os.DirFS opens one on disk
	for name, data := range (recipe{}).make().bundle.Files() {
		folder[name] = &fstest.MapFile{Data: data}
	}
	folder[receipts.FileResult].Data = []byte(`{"status":"success"}`)

	bundle, err := receipts.ReadBundle(folder, receipts.Limits{})
	if err != nil {
		log.Fatal("this is no bundle: ", err)
	}
	report := receipts.Verify(bundle, pins())
	fmt.Println("all that is required is proved:", report.ExitCode() == receipts.ExitProved)
	fmt.Println("signed by the provider:", report.Claim(receipts.ClaimSignature).State)
	for _, c := range report.Claims {
		if c.State == receipts.Failed {
			fmt.Printf("%s: %s\n", c.Name, c.Reason)
		}
	}
	// Output:
	// all that is required is proved: false
	// signed by the provider: proved
	// result: RESULT.json is in the bundle and is what the event carries: documents disagree: it differs from the event's content
}

// A provider numbers its receipts, and each names the one before it. Whoever has
// several of them sees which numbers are missing and whether two contradict each other.
func ExampleChains() {
	var chains receipts.Chains
	six := chained(6, paidApart) // the reports of a provider's first six receipts
	for _, i := range []int{0, 1, 4} {
		chains.Add(six[i])
	}
	for _, provider := range chains.Reports(nil) {
		fmt.Println(provider.Receipts, "receipts, the last is number", provider.Last)
		for _, gap := range provider.Missing {
			fmt.Println("missing:", gap.From, "to", gap.To)
		}
	}

	// The same provider signed another receipt with the number 5.
	twin := recipe{receipt: func(r *receipts.Receipt) { r.Sequence = 5 }}.make().bundle
	chains.Add(receipts.Verify(twin, receipts.Pins{}))
	for _, provider := range chains.Reports(nil) {
		fmt.Println("faults:", provider.Faults)
	}
	// Output:
	// 3 receipts, the last is number 5
	// missing: 3 to 4
	// faults: [two receipts have the number 5]
}

// Documents that are signed or hashed have one form. A reader takes no other, because
// two readers could then understand it in two ways.
func ExampleParsePolicy() {
	doc, err := receipts.Policy{Version: 1, Producer: "lightwork@1.2.3"}.Canonical()
	if err != nil {
		log.Fatal(err)
	}
	policy, err := receipts.ParsePolicy(doc)
	fmt.Println(policy.Producer, err)

	_, err = receipts.ParsePolicy(append(doc, '\n'))
	fmt.Println(errors.Is(err, receipts.ErrInvalid), err)
	// Output:
	// lightwork@1.2.3 <nil>
	// true invalid document: policy is not in canonical form
}

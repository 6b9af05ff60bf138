package receipts_test

import (
	"fmt"

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

package bolt11_test

import (
	"fmt"

	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// An invoice of the specification, for 2500 millionths of a bitcoin.
func ExampleDecode() {
	inv, err := bolt11.Decode("lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqq" +
		"syqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpu9qrsgquk0rl77nj30yxdy8j9vdx85fkpmdla2087ne0xh8nhedh8w27kyke0lp53u" +
		"t353s06fv3qfegext0eh0ymjpf39tuven09sam30g4vgpfna3rh")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(inv.AmountMsats, "msats,", inv.Description, "-", inv.Expiry)
	fmt.Println(inv.Payee)
	// Output:
	// 250000000 msats, 1 cup coffee - 1m0s
	// 03e7156ae33b0a208d0744199163177e909e80176e55d97a2f221ede0f934dd9ad
}

package payments

import "testing"

func TestCashuNetwork(t *testing.T) {
	for mint, url := range map[string]string{
		"mint.example.com":         "https://mint.example.com",
		"mint.example.com:3338":    "https://mint.example.com:3338",
		"mint.example.com/Bitcoin": "https://mint.example.com/Bitcoin",
		"127.0.0.1:3338":           "http://127.0.0.1:3338",
		"localhost":                "http://localhost",
	} {
		n, err := CashuNetwork(mint)
		if err != nil {
			t.Error(err)
			continue
		}
		back, ok := n.CashuMint()
		if again, err := ParseNetwork(string(n)); err != nil || again != n || !ok || back != mint {
			t.Errorf("%s: %s, %s, %v", mint, again, back, err)
		}
		if got := AssetID(n); got != "BTC_CASHU("+mint+")" {
			t.Errorf("asset %s", got)
		}
		if got := MintURL(mint); got != url {
			t.Errorf("%s: %s", mint, got)
		}
	}
	for _, mint := range []string{
		"", "https://mint.example.com", "Mint.example.com", "mint.example.com/", "mint example", "mint.example.com:", "mint.example.com:123456",
		"mint.example.com:80a", "user@mint.example.com", "mint.example.com/a?b", "mint.example.com/(x)", "/path", ":80", ".example", "mint\n",
	} {
		if n, err := CashuNetwork(mint); err == nil {
			t.Errorf("%q is %s", mint, n)
		}
	}
	if _, ok := Mainnet.CashuMint(); ok {
		t.Error("the main network is a mint")
	}
}
